#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/check.h"

namespace loci::cpu {
namespace {

constexpr int kBarrierBits = 24;
constexpr int kCountBits = 16;
constexpr auto kSpinTime = std::chrono::microseconds(50);

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Spins until ready() holds or the spin time is over; returns ready().
template <typename Ready>
bool spin_until(Ready&& ready) {
  for (int i = 0; i < 64; ++i) {
    if (ready()) return true;
    pause_briefly();
  }
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

// Waits inside a job: the others are at work, so after the spin the core is offered to whoever needs it.
template <typename Ready>
void wait_for(Ready&& ready) {
  if (spin_until(ready)) return;
  while (!ready()) std::this_thread::yield();
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  LOCI_CHECK(n_threads >= 1 && n_threads < (1 << kCountBits), n_threads);
  for (int i = 0; i < n_threads; ++i) slots_.push_back(std::make_unique<Slot>());
  for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { worker_loop(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_job(int n_threads, Job job, void* context) {
  const int count = std::clamp(n_threads, 1, size());
  if (count == 1) {
    Worker self{this, 0, 1};
    job(context, self);
    return;
  }
  const uint64_t generation = (ticket_.load(std::memory_order_relaxed) >> kCountBits) + 1;
  job_ = job;
  context_ = context;
  // Sequentially consistent with sleepers_: a worker that we don't see as a sleeper sees the new ticket.
  ticket_.store(generation << kCountBits | static_cast<uint64_t>(count));
  if (sleepers_.load() > 0) {
    { const std::lock_guard lock(mutex_); }  // a worker between its last look and its wait finishes going to sleep
    wake_.notify_all();
  }
  slots_[0]->epoch = generation << kBarrierBits;
  Worker self{this, 0, count};
  job(context, self);
  for (int i = 1; i < count; ++i) {
    wait_for([&] { return slots_[i]->done.load(std::memory_order_acquire) == generation; });
  }
}

void ThreadPool::worker_loop(int index) {
  Slot& slot = *slots_[index];
  uint64_t seen = 0;
  while (true) {
    const auto changed = [&] { return ticket_.load() != seen || stop_.load(std::memory_order_relaxed); };
    if (!spin_until(changed)) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, changed);
      sleepers_.fetch_sub(1);
    }
    if (stop_.load(std::memory_order_relaxed)) return;
    seen = ticket_.load();
    const int count = static_cast<int>(seen & ((1u << kCountBits) - 1));
    if (index >= count) continue;
    const uint64_t generation = seen >> kCountBits;
    slot.epoch = generation << kBarrierBits;
    Worker self{this, index, count};
    job_(context_, self);
    slot.done.store(generation, std::memory_order_release);
  }
}

void ThreadPool::arrive_and_wait(int index, int count) {
  Slot& mine = *slots_[index];
  const uint64_t target = ++mine.epoch;
  mine.arrived.store(target, std::memory_order_release);
  for (int i = 0; i < count; ++i) {
    if (i == index) continue;
    wait_for([&] { return slots_[i]->arrived.load(std::memory_order_acquire) >= target; });
  }
}

}  // namespace loci::cpu
