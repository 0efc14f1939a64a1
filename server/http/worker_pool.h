// WorkerPool: the threads that serve connections. They are made as they are needed, up to a limit; beyond it
// connections wait.
#pragma once
#include <httplib.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace loci::server {

class WorkerPool : public httplib::TaskQueue {
 public:
  explicit WorkerPool(int max_threads) : max_threads_(static_cast<size_t>(max_threads)) {}
  ~WorkerPool() override { shutdown(); }

  void enqueue(std::function<void()> task) override;
  void shutdown() override;  // returns when every task has run
  // Some connection waits for a thread: idle ones should give theirs back.
  bool crowded() const;

 private:
  void work();

  const size_t max_threads_;
  mutable std::mutex mutex_;
  std::condition_variable has_task_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as all below
  std::vector<std::thread> threads_;
  size_t n_idle_ = 0;
  bool stopping_ = false;
};

}  // namespace loci::server
