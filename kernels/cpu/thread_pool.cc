#include "kernels/cpu/thread_pool.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <set>

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
#include "kernels/log.h"

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

struct ThreadPool::Schedule {
  int policy = SCHED_OTHER;
  sched_param parameter{};
  int nice = 0;

  // Thread 0 is the calling one.
  static Schedule of(pid_t thread) {
    Schedule schedule;
    schedule.policy = std::max(0, sched_getscheduler(thread));
    (void)sched_getparam(thread, &schedule.parameter);
    schedule.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
    return schedule;
  }
  int apply(pid_t thread) const {
    if (sched_setscheduler(thread, policy, &parameter) != 0) return errno;
    return setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice) == 0 ? 0 : errno;
  }
  // ThreadPlacement::priority. On Linux policy and niceness belong to the thread.
  Schedule with(int priority) const {
    Schedule changed = *this;
    if (priority == -1) changed.policy = SCHED_BATCH;
    if (priority == 1 || priority == 2) changed.nice = std::max(-20, nice - 5 * priority);
    if (priority == 3) changed.policy = SCHED_FIFO;
    if (priority == -1 || priority == 3) changed.parameter.sched_priority = priority == 3 ? 1 : 0;
    return changed;
  }
};

// What a thread had before a pool placed it.
struct ThreadPool::CallerState {
  pid_t thread;
  const void* mark;  // differs between living threads
  cpu_set_t cpus;
  Schedule schedule;

  CallerState(pid_t tid, const void* mark_of_thread) : thread(tid), mark(mark_of_thread), schedule(Schedule::of(tid)) {
    CPU_ZERO(&cpus);
    (void)sched_getaffinity(tid, sizeof(cpus), &cpus);
  }
  ~CallerState() {
    (void)sched_setaffinity(thread, sizeof(cpus), &cpus);
    (void)schedule.apply(thread);
  }
  CallerState(const CallerState&) = delete;
  CallerState& operator=(const CallerState&) = delete;
};

namespace {

pid_t this_thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// The pool and the mode that placed this thread last.
thread_local uint64_t placed_by = 0;
thread_local size_t placed_mode = 0;

std::atomic<uint64_t> next_pool_id{1};

// CPUs that the threads of a mode may run on, all together.
size_t count_cpus(const PoolMode& mode) {
  if (mode.cpus.empty()) return usable_cpu_ids().size();
  std::set<int> all;
  for (const CpuIds& cpus : mode.cpus) all.insert(cpus.begin(), cpus.end());
  return all.size();
}

int bind_this_thread(const CpuIds& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < CPU_SETSIZE) CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : errno;
}

}  // namespace

ThreadPool::ThreadPool(int n_threads, int spin_us)
    : ThreadPool(n_threads, {PoolMode{.cpus = {}, .priority = 0, .spin_us = spin_us}}) {}

ThreadPool::ThreadPool(int n_threads, std::vector<PoolMode> modes)
    : id_(next_pool_id++), modes_(std::move(modes)), base_(std::make_unique<const Schedule>(Schedule::of(0))) {
  LOCI_CHECK(n_threads >= 1 && n_threads < (1 << kCountBits), n_threads);
  LOCI_CHECK(!modes_.empty());
  for (const PoolMode& mode : modes_) {
    LOCI_CHECK(mode.cpus.empty() || static_cast<int>(mode.cpus.size()) >= n_threads, mode.cpus.size());
    places_ = places_ || !mode.cpus.empty() || mode.priority != 0;
    // Threads without a core of their own would spin against the thread that they wait for.
    const bool has_cores = static_cast<size_t>(n_threads) <= count_cpus(mode);
    longest_spin_ns_.push_back(has_cores ? int64_t{1000} * mode.spin_us : 0);
  }
  for (int i = 0; i < n_threads; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->spin_ns = longest_spin_ns();
    slots_.back()->mode = kNoMode;
  }
  for (int i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { worker_loop(i); });
}

ThreadPool::~ThreadPool() {
  ticket_.post(kStop);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::place(int index) {
  const PoolMode& mode = modes_[mode_];
  int error = 0;
  if (!mode.cpus.empty()) error = bind_this_thread(mode.cpus[static_cast<size_t>(index)]);
  if (error != 0 && !told_refusal_.exchange(true)) {
    log_warn("threads cannot be bound to the CPUs ", cpu_list_text(mode.cpus[static_cast<size_t>(index)]), ": ",
             std::strerror(error));
  }
  error = base_->with(mode.priority).apply(0);
  if (error != 0 && !told_refusal_.exchange(true)) {
    log_warn("--prio ", mode.priority, ": ", std::strerror(error),
             "; threads keep the normal priority (CAP_SYS_NICE or the limits rtprio and nice allow more)");
  }
}

void ThreadPool::place_caller() {
  if (placed_by == id_ && placed_mode == mode_ && caller_->mark == &placed_by) return;
  const pid_t thread = this_thread_id();
  if (!caller_ || caller_->thread != thread) caller_ = std::make_unique<CallerState>(thread, &placed_by);
  place(0);
  placed_by = id_;
  placed_mode = mode_;
}

void ThreadPool::run_job(int n_threads, Job job, void* context) {
  const int count = std::clamp(n_threads, 1, size());
  if (places_) place_caller();
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
    slots_[i]->done.wait([&](uint64_t done) { return done == generation; }, longest_spin_ns(), mine.spin_ns);
  }
}

void ThreadPool::worker_loop(int index) {
  Slot& slot = *slots_[index];
  int64_t longest_spin_ns = longest_spin_ns_[0];  // of the last job's mode
  int64_t idle_spin_ns = longest_spin_ns;  // between jobs the pool may rest for long: that says nothing of barriers
  uint64_t seen = 0;
  while (true) {
    ticket_.wait([&](uint64_t ticket) { return ticket != seen; }, longest_spin_ns, idle_spin_ns);
    seen = ticket_.value.load(std::memory_order_acquire);
    if (seen == kStop) return;
    const int count = static_cast<int>(seen & ((1u << kCountBits) - 1));
    if (index >= count) continue;
    if (slot.mode != mode_) {
      if (places_) place(index);
      slot.mode = mode_;
      longest_spin_ns = this->longest_spin_ns();
    }
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
    slots_[i]->arrived.wait([&](uint64_t arrived) { return arrived >= target; }, longest_spin_ns(), mine.spin_ns);
  }
}

}  // namespace loci::cpu
