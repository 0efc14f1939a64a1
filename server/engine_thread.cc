#include "server/engine_thread.h"

#include <utility>

#include "kernels/log.h"

namespace loci::server {

EngineThread::EngineThread(Engine& engine) : engine_(engine), thread_([this] { run(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  engine_.cancel_all();
  has_work_.notify_one();
  thread_.join();
}

void EngineThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  has_work_.notify_one();
}

void EngineThread::cancel_all() {
  {
    const std::lock_guard lock(mutex_);
    cancelling_ = true;
  }
  engine_.cancel_all();
  has_work_.notify_one();
}

void EngineThread::run() {
  bool busy = false;
  while (true) {
    std::vector<std::function<void()>> tasks;
    bool stopping = false, cancelling = false;
    {
      std::unique_lock lock(mutex_);
      if (!busy) has_work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      tasks.swap(tasks_);
      stopping = stopping_;
      cancelling = cancelling_ || stopping_;
    }
    for (const auto& task : tasks) task();
    if (cancelling) engine_.cancel_all();
    try {
      busy = engine_.step();
    } catch (const std::exception& error) {
      // Whoever ran is told by its end; a step without them comes next.
      log_line(LogLevel::kError, str("a step of the engine failed: ", error.what()));
      engine_.cancel_all();
      busy = true;
    }
    if (stopping && !busy) return;
  }
}

}  // namespace loci::server
