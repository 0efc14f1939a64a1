#include "server/http/worker_pool.h"

#include <system_error>

#include "kernels/log.h"

namespace loci::server {

void WorkerPool::enqueue(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (n_idle_ < tasks_.size() && threads_.size() < max_threads_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      log_warn("no thread for a connection, it waits for one of ", threads_.size(), ": ", error.what());
    }
  }
  has_task_.notify_one();
}

bool WorkerPool::crowded() const {
  const std::lock_guard lock(mutex_);
  return stopping_ || tasks_.size() > n_idle_;
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++n_idle_;
    has_task_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    --n_idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void WorkerPool::shutdown() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  has_task_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace loci::server
