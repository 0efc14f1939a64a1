// Service: the loaded model and its settings, as the endpoints use it. One per model; every connection's thread reads
// it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/completion_request.h"
#include "server/completion_response.h"
#include "server/engine_thread.h"
#include "server/live_requests.h"

namespace loci::server {

struct ServiceSettings {
  RequestDefaults defaults;          // what it points to outlives the service
  std::vector<std::string> aliases;  // names of the model; the first is the one that answers carry
  std::string fingerprint;           // system_fingerprint
  bool keep_pseudo_headers = false;  // changing lines of coding assistants in system prompts (anthropic_body.h)
  std::string metrics_prefix = "loci:";
  Pooling pooling = Pooling::kMean;                   // of embeddings
  bool metrics = false, props = false, slots = true;  // endpoints that are there
  int sse_ping_s = 30;                                // a comment after so long a silence; 0: none
};

// Answers by status code.
class StatusCounts {
 public:
  void add(int status) {
    if (status >= 0 && status < static_cast<int>(counts_.size())) ++counts_[static_cast<size_t>(status)];
  }
  int64_t of(int status) const { return counts_[static_cast<size_t>(status)]; }
  int size() const { return static_cast<int>(counts_.size()); }

 private:
  std::array<std::atomic<int64_t>, 600> counts_{};
};

// What the engine's own figures do not tell.
struct RequestFigures {
  Histogram total_ms, prompt_tokens, generated_tokens;
  double prompt_ms = 0, predicted_ms = 0;
  int64_t most_tokens = 0;  // of one sequence
};

class Service {
 public:
  // `engine` is not owned and not used by anybody else from now on, but for what may be called from any thread.
  Service(Engine& engine, ServiceSettings settings);

  EngineThread& thread() { return thread_; }
  const ModelInfo& info() const { return engine_.info(); }
  const EngineConfig& config() const { return engine_.config(); }
  const gguf::Metadata& metadata() const { return engine_.metadata(); }
  const Tokenizer& tokenizer() const { return engine_.tokenizer(); }
  int64_t embedding_size() const;
  Metrics engine_metrics() const { return engine_.metrics(); }
  const ServiceSettings& settings() const { return settings_; }
  const RequestDefaults& defaults() const { return settings_.defaults; }
  const std::string& model_name() const { return settings_.aliases.front(); }
  std::time_t started() const { return started_; }

  // A fresh "prefix-<32 letters and digits>".
  std::string make_id(const std::string& prefix);
  ResponseStamp stamp(const std::string& id_prefix);

  LiveRequests& live() { return live_; }
  StatusCounts& statuses() { return statuses_; }
  void note_finished(const RequestStats& stats, double total_ms);
  RequestFigures figures() const;

 private:
  Engine& engine_;
  ServiceSettings settings_;
  const std::time_t started_ = std::time(nullptr);
  StatusCounts statuses_;
  LiveRequests live_;
  std::mutex id_mutex_;
  uint64_t id_state_;  // guarded by id_mutex_
  mutable std::mutex figures_mutex_;
  RequestFigures figures_;  // guarded by figures_mutex_
  EngineThread thread_;     // last: it uses the rest
};

}  // namespace loci::server
