#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <climits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/check.h"
#include "kernels/cpu/cpu_count.h"

namespace loci::cpu {
namespace {

constexpr int kBarrierBits = 24;
constexpr int kCountBits = 16;
constexpr uint64_t kStop = UINT64_MAX;
constexpr int64_t kShortestSpinNs = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Spins until ready() holds or the time is over; returns ready().
template <typename Ready>
bool spin_until(Ready&& ready, int64_t spin_ns) {
  for (int i = 0; i < 64; ++i) {
    if (ready()) return true;
    if (spin_ns > 0) pause_briefly();
  }
  const int64_t end = now_ns() + spin_ns;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (now_ns() < end);
  return ready();
}

// Sleeps until someone calls wake_all, if the low half of `value` is that of `seen`; may return early.
void sleep_while(const std::atomic<uint64_t>& value, uint64_t seen) {
#if defined(__linux__)
  static_assert(std::endian::native == std::endian::little);
  syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, static_cast<uint32_t>(seen), nullptr, nullptr, 0);
#else
  if (value.load() == seen) std::this_thread::yield();
#endif
}
void wake_all(const std::atomic<uint64_t>& value) {
#if defined(__linux__)
  syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#else
  (void)value;
#endif
}

}  // namespace

// Both sides are sequentially consistent: a waiter that the poster does not see as a sleeper sees the new value.
void ThreadPool::Signal::post(uint64_t new_value) {
  value.store(new_value);
  if (sleepers.load() > 0) wake_all(value);
}

template <typename Ready>
void ThreadPool::Signal::wait(Ready&& ready, int64_t longest_spin_ns, int64_t& spin_ns) {
  if (spin_until([&] { return ready(value.load(std::memory_order_acquire)); }, spin_ns)) {
    spin_ns = std::min(longest_spin_ns, spin_ns + spin_ns / 8);
    return;
  }
  spin_ns = std::min(kShortestSpinNs, longest_spin_ns);
  sleepers.fetch_add(1);
  for (uint64_t seen = value.load(); !ready(seen); seen = value.load()) sleep_while(value, seen);
  sleepers.fetch_sub(1);
}

ThreadPool::ThreadPool(int n_threads, int spin_us)
    // Threads without a core of their own would spin against the thread that they wait for.
    : longest_spin_ns_(n_threads <= usable_cpus() ? int64_t{1000} * spin_us : 0) {
  LOCI_CHECK(n_threads >= 1 && n_threads < (1 << kCountBits), n_threads);
  for (int i = 0; i < n_threads; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->spin_ns = longest_spin_ns_;
  }
  for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { worker_loop(i); });
}

ThreadPool::~ThreadPool() {
  ticket_.post(kStop);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_job(int n_threads, Job job, void* context) {
  const int count = std::clamp(n_threads, 1, size());
  if (count == 1) {
    Worker self{this, 0, 1};
    job(context, self);
    return;
  }
  const uint64_t generation = (ticket_.value.load(std::memory_order_relaxed) >> kCountBits) + 1;
  job_ = job;
  context_ = context;
  ticket_.post(generation << kCountBits | static_cast<uint64_t>(count));
  Slot& mine = *slots_[0];
  mine.epoch = generation << kBarrierBits;
  Worker self{this, 0, count};
  job(context, self);
  for (int i = 1; i < count; ++i) {
    slots_[i]->done.wait([&](uint64_t done) { return done == generation; }, longest_spin_ns_, mine.spin_ns);
  }
}

void ThreadPool::worker_loop(int index) {
  Slot& slot = *slots_[index];
  int64_t idle_spin_ns = longest_spin_ns_;  // between jobs the pool may rest for long: that says nothing of barriers
  uint64_t seen = 0;
  while (true) {
    ticket_.wait([&](uint64_t ticket) { return ticket != seen; }, longest_spin_ns_, idle_spin_ns);
    seen = ticket_.value.load(std::memory_order_acquire);
    if (seen == kStop) return;
    const int count = static_cast<int>(seen & ((1u << kCountBits) - 1));
    if (index >= count) continue;
    const uint64_t generation = seen >> kCountBits;
    slot.epoch = generation << kBarrierBits;
    Worker self{this, index, count};
    job_(context_, self);
    slot.done.post(generation);
  }
}

void ThreadPool::arrive_and_wait(int index, int count) {
  Slot& mine = *slots_[index];
  const uint64_t target = ++mine.epoch;
  mine.arrived.post(target);
  for (int i = 0; i < count; ++i) {
    if (i == index) continue;
    slots_[i]->arrived.wait([&](uint64_t arrived) { return arrived >= target; }, longest_spin_ns_, mine.spin_ns);
  }
}

}  // namespace loci::cpu
