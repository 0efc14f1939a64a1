// ThreadPool: persistent workers with a static partition. The calling thread is always worker 0 of a job.
//
// Workers wait for a job by spinning briefly, then sleep; so do the caller for the workers' end and everyone at a
// barrier. Nothing depends on which thread computes what: partitions are functions of (index, count).
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

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

  // Starts n_threads - 1 workers. REQUIRES: n_threads >= 1.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(slots_.size()); }

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

  // One cache line pair per thread: no two threads write the same line.
  struct alignas(128) Slot {
    std::atomic<uint64_t> arrived{0};  // generation * 2^24 + barriers passed; monotonic
    std::atomic<uint64_t> done{0};     // generation of the last finished job
    uint64_t epoch = 0;                // this thread's own count for `arrived`
  };

  void run_job(int n_threads, Job job, void* context);
  void arrive_and_wait(int index, int count);
  void worker_loop(int index);

  std::vector<std::unique_ptr<Slot>> slots_;  // [size()]
  // Generation * 2^16 + number of threads of the current job. job_ and context_ are written before it changes, while
  // no thread runs; only the job's own threads read them.
  alignas(128) std::atomic<uint64_t> ticket_{0};
  Job job_ = nullptr;
  void* context_ = nullptr;

  alignas(128) std::atomic<int> sleepers_{0};  // workers that sleep or are about to
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace loci::cpu
