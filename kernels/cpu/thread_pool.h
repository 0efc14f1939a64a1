// ThreadPool: persistent workers with a static partition. The calling thread is always worker 0 of a job.
//
// Every wait (a worker for a job, all at a barrier, the caller for the end) spins for a while and then sleeps in the
// kernel. Spinning is what makes a barrier cost 100 ns; sleeping is what lets threads make progress when others want
// their cores: a thread that slept goes first, one that yielded goes last. A wait that had to sleep shortens the next
// spins of its thread, one that did not lengthens them.
//
// Nothing depends on which thread computes what: partitions are functions of (index, count).
//
// Threads may be bound to CPUs and given a priority (placement.h), the caller of run() included; when the pool ends,
// the caller gets back what it had.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/placement.h"

namespace loci::cpu {

class ThreadPool {
 public:
  // One thread's place in a running job.
  struct Worker {
    ThreadPool* pool;
    int index;  // 0 .. count-1
    int count;
    // This worker's part [begin, end) of n items, contiguous and balanced to one item.
    std::pair<int64_t, int64_t> part(int64_t n) const { return {n * index / count, n * (index + 1) / count}; }
    // Returns when all `count` workers of the job have arrived. Every worker must arrive equally often.
    void barrier() {
      if (count > 1) pool->arrive_and_wait(index, count);
    }
  };

  // Starts n_threads - 1 workers. Waits spin for at most spin_us microseconds; not at all when threads outnumber the
  // CPUs of this process.  REQUIRES: n_threads >= 1.
  explicit ThreadPool(int n_threads, int spin_us = 50);
  // The same with placements to choose from, each of n_threads threads; the first one holds until set_mode().
  // REQUIRES: modes is not empty.
  ThreadPool(int n_threads, std::vector<PoolMode> modes);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(slots_.size()); }
  const std::vector<PoolMode>& modes() const { return modes_; }
  // The placement of the next jobs' threads.  REQUIRES: mode < number of modes.
  void set_mode(size_t mode) { mode_ = mode; }

  // Calls fn(Worker&) on n_threads threads (clamped to size()) and returns when all are done. Writes of the caller are
  // seen by the workers and theirs by the caller. fn must not throw. Not reentrant; one caller at a time.
  template <typename Fn>
  void run(int n_threads, Fn&& fn) {
    using Function = std::remove_reference_t<Fn>;
    run_job(
        n_threads, [](void* context, Worker& worker) { (*static_cast<Function*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Job = void (*)(void* context, Worker& worker);

  // A number that one thread raises and others wait for. One cache line pair each: no two threads write the same line.
  struct alignas(128) Signal {
    std::atomic<uint64_t> value{0};
    std::atomic<int> sleepers{0};
    void post(uint64_t new_value);
    // Returns when ready(value) holds. `spin_ns` is the waiting thread's own.
    template <typename Ready>
    void wait(Ready&& ready, int64_t longest_spin_ns, int64_t& spin_ns);
  };

  struct Slot {
    Signal arrived;                   // generation * 2^24 + barriers passed
    Signal done;                      // generation of the last finished job
    alignas(128) uint64_t epoch = 0;  // this thread's own count for `arrived`
    int64_t spin_ns = 0;              // how long its waits spin at present
    size_t mode = 0;                  // placement that the thread has; kNoMode: that which it was started with
  };
  struct Schedule;
  struct CallerState;

  void run_job(int n_threads, Job job, void* context);
  void place_caller();
  // Binds the calling thread, which is thread `index`, as mode_ says.
  void place(int index);
  int64_t longest_spin_ns() const { return longest_spin_ns_[mode_]; }
  void arrive_and_wait(int index, int count);
  void worker_loop(int index);

  static constexpr size_t kNoMode = SIZE_MAX;
  const uint64_t id_;  // of this pool among all there were
  const std::vector<PoolMode> modes_;
  const std::unique_ptr<const Schedule> base_;  // of the thread that made the pool: what priority 0 means
  bool places_ = false;                         // a mode binds threads or changes their priority
  std::vector<int64_t> longest_spin_ns_;        // [modes]
  size_t mode_ = 0;                             // as job_: written while no thread runs
  std::unique_ptr<CallerState> caller_;         // what the thread that calls run() had before
  std::atomic<bool> told_refusal_{false};
  std::vector<std::unique_ptr<Slot>> slots_;  // [size()]
  // Generation * 2^16 + number of threads of the current job; kStop ends the workers. job_ and context_ are written
  // before it changes, while no thread runs; only the job's own threads read them.
  Signal ticket_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace loci::cpu
