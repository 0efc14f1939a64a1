// Engine: the public face. Loads a model, takes Requests, runs steps. One thread owns it: submit, step and the
// sinks run there; cancel() and metrics() may be called from any thread, cancel_all() from a signal handler as well.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/batch.h"
#include "engine/config.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/text/tokenizer.h"
#include "gguf/gguf.h"

namespace loci {

class Backend;
struct ArchSpec;

// Throws what Engine::load would throw for this file, short of memory: wrong numbers, missing or misshapen tensors,
// types that cannot be computed with, a broken vocabulary. Converts nothing. Returns the tensors that would be skipped.
std::vector<std::string> check_loadable(const gguf::File& file);

struct ModelInfo {
  std::string path, name, architecture, quantization;  // "Q4_K - Medium" style text from what the file holds
  int64_t n_params = 0, file_bytes = 0, n_ctx_train = 0, n_ctx = 0;
  int64_t weight_bytes = 0, kv_bytes = 0;  // memory held
  int64_t n_kv_tokens = 0;                 // for which the K/V pool has room, over all sequences
  int64_t n_kv_window_tokens = 0;          // the same in layers with a sliding window; 0: as in all others
  std::string backend;
  std::string chat_template;  // Jinja source, empty when the file has none
  uint64_t fingerprint = 0;   // differs for models whose answers differ, but for tensors' middle bytes
};

class Engine {
 public:
  // Throws Error. The config is completed (automatic values filled, but for threads, which
  // ModelInfo::backend tells) and kept.
  static std::unique_ptr<Engine> load(const EngineConfig& config, const LoadProgress& progress = {});
  // The same on a device made by the caller.
  static std::unique_ptr<Engine> load(const EngineConfig& config, const LoadProgress& progress,
                                      std::unique_ptr<Backend> backend);
  ~Engine();

  const EngineConfig& config() const;
  const ModelInfo& info() const;
  const gguf::Metadata& metadata() const;
  const Tokenizer& tokenizer() const;
  const ArchSpec& arch() const;
  // Compiles grammars for requests; may be used from any thread.
  ConstraintCompiler& constraints();

  // Queues a request. Throws Error(kInvalidInput) with both counts when the prompt does not fit the context, and
  // when sampling parameters are out of range; QueueFull when max_queue requests wait already.
  RequestId submit(Request request);
  // One forward pass for whoever is due. False when nothing is left to do.
  bool step();
  void run_until_idle();
  // Ends a request, all its samples; a step that mostly works for it is abandoned at the next layer border.
  void cancel(RequestId id);
  void cancel_all();  // async-signal-safe
  // As of the end of the last step.
  Metrics metrics() const;

  // Plain evaluation for perplexity and tests: a fresh sequence, `chunk` rows at a time (0: n_ubatch), logits of
  // the rows from `first_logit_row` on, handed out row by row in order. The logits are the model's own.
  void evaluate(std::span<const int32_t> tokens, int64_t first_logit_row, int chunk,
                const std::function<void(int64_t row, std::span<const float> logits)>& on_row);
  // Several sequences in one ragged batch; logits of the last token of each: [n_seqs][n_vocab].
  std::vector<std::vector<float>> evaluate_batch(std::span<const std::vector<int32_t>> sequences);

  // Keeps the K/V of the most recent request (--prompt-cache, --session): versioned, checksummed, bound to model and
  // formats. load_cache returns an empty string, or why the file was not used. Saving to a file that was saved to or
  // loaded before appends what is new; a program killed meanwhile leaves the old state or the new one. A session is the
  // same with a text of the caller's, and may be without K/V; `durable`: on return it has reached the disk.
  void save_cache(const std::string& path);
  [[nodiscard]] std::string load_cache(const std::string& path);
  void save_session(const std::string& path, std::string_view text, bool durable);
  [[nodiscard]] std::string load_session(const std::string& path, std::string& text);
  void clear_cache();
  // Aborts when the page accounting is broken (tests call it after each step).
  void check_invariants() const;

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace loci
