// EngineThread: the one thread that owns an engine and runs its steps. Others hand it tasks, which run between two
// steps.
#pragma once
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "engine/engine.h"

namespace loci::server {

class EngineThread {
 public:
  explicit EngineThread(Engine& engine);  // not owned
  ~EngineThread();                        // cancels what is left and waits for its end

  // Runs `task` on the engine's thread, soon. It must not throw.
  void post(std::function<void()> task);
  // Runs `task` there and returns what it returns or throws.
  template <typename Task>
  std::invoke_result_t<Task> call(Task task) {
    std::packaged_task<std::invoke_result_t<Task>()> packaged(std::move(task));
    auto result = packaged.get_future();
    post([&packaged] { packaged(); });
    return result.get();
  }
  // A cancellation was asked of the engine: it is looked at soon.
  void wake() {
    post([] {});
  }
  // Ends all requests, and those to come too: for the end of the program.
  void cancel_all();
  Engine& engine() { return engine_; }

 private:
  void run();

  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_, as are the next two
  bool stopping_ = false;
  bool cancelling_ = false;  // everything, from now on
  std::thread thread_;
};

}  // namespace loci::server
