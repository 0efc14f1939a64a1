// Generation: a CompletionRequest at work in the engine, as the thread of its connection follows it. What the engine
// delivers is queued here, so that a slow client never holds up a step.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/engine_thread.h"

namespace loci::server {

struct GenerationEvent {
  enum class Kind { kPrompt, kPromptToken, kToken, kFinish } kind = Kind::kToken;
  size_t choice = 0;
  double ms = 0;  // since the start
  // kPrompt: tokens of the prompt
  int64_t n_done = 0, n_total = 0, n_cached = 0;
  // kPromptToken: its place in the prompt
  int64_t position = 0;
  // kToken
  int32_t token = 0;
  // kToken, kPromptToken
  std::vector<TokenProb> top;
  // kToken, kFinish
  std::string text;
  // kFinish
  RequestStats stats;
  std::vector<float> pooled;  // CompletionRequest::pooling
};

class Generation {
 public:
  // Hands the request in and returns once the engine has taken or refused it. Throws Error, QueueFull among them.
  // `engine` outlives all generations.
  Generation(EngineThread& engine, const CompletionRequest& request);
  ~Generation();  // cancels what still runs
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The next event, or nothing when none came within `timeout_ms`. Events of a choice come in order; the last one of
  // each is kFinish.
  std::optional<GenerationEvent> next(int timeout_ms);
  void cancel();

 private:
  struct Shared;  // with the engine's thread, until the last choice has ended
  EngineThread& engine_;
  std::shared_ptr<Shared> shared_;
  size_t n_open_;  // choices whose end has not been read
};

}  // namespace loci::server
