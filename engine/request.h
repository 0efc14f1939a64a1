// Request: what a user of the engine hands in; TokenSink: how the answer comes back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/kv/cache_report.h"
#include "engine/sampling/sampler.h"
#include "kernels/error.h"

namespace loci {

enum class FinishReason {
  kEndToken,     // the model ended its answer
  kStopString,   // a stop string was met
  kLimit,        // max_tokens reached
  kContextFull,  // no room left in the context
  kDeadline,     // timeout_ms passed
  kCancelled,
  kError,  // see RequestStats::error
};

// How drafts fared, in tokens.
struct SpeculationStats {
  int64_t n_rounds = 0;  // steps that checked drafts
  int64_t n_drafted = 0, n_accepted = 0;
  std::vector<int64_t> drafted_at,
      accepted_at;  // rounds with a draft at the i-th place behind the sequence; right there
};

struct RequestStats {
  FinishReason reason = FinishReason::kEndToken;
  std::string stop_string;  // when reason is kStopString
  std::string error;        // when reason is kError
  int64_t n_prompt = 0;     // prompt tokens
  int64_t n_cached = 0;     // of these, taken from the cache
  CacheReport cache;        // why not more
  std::string cache_miss;   // the same in words, empty when nothing was missed (cache_text.h)
  int64_t n_predicted = 0;  // tokens generated (an end token counts)
  double queue_ms = 0;      // from submit to the first step
  double prompt_ms = 0;     // time spent on the prompt tokens that were not cached
  double predicted_ms = 0;
  uint64_t seed = 0;  // seed in use
  SpeculationStats speculation;
  ConstraintCosts constraint;  // with a grammar
};

// Called by the thread that runs Engine::step().
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void on_prompt(int64_t done, int64_t total, int64_t cached) { (void)done, (void)total, (void)cached; }
  // Request::n_prompt_logprobs, in order: how probable the prompt's token at `position` (from 1) was after those before
  // it, and the most probable ones, best first, with it among or behind them.
  virtual void on_prompt_token(int64_t position, std::span<const TokenProb> top) { (void)position, (void)top; }
  // Request::wants_hidden, in order: the model's last hidden row of each prompt token, normed [dim].
  virtual void on_hidden(int64_t position, std::span<const float> row) { (void)position, (void)row; }
  // One accepted token and the text that became showable with it (often empty: held back).
  virtual void on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) = 0;
  // The end. `text` is what had been held back and belongs to the answer.
  virtual void on_finish(std::string_view text, const RequestStats& stats) = 0;
};

enum class SpeculationMode { kNone, kNgram, kDraft, kAuto };

constexpr int kMaxDrafts = 64, kMaxDraftWidth = 8;  // of Speculation

// Drafting tokens ahead and checking several in one step. Changes speed alone: the tokens are the same.
struct Speculation {
  SpeculationMode mode = SpeculationMode::kNone;  // kAuto: whatever promises most, the draft model if there is one
  int max_tokens = 16;                            // most drafts of one step
  int min_tokens = 0;                             // fewer are not worth a try
  float p_min = 0;                                // the draft model stops at a draft it finds less probable
  int width = 1;                                  // alternatives at each place: more than one makes a tree
  bool adaptive = true;                           // only as many drafts as pay; false: as many as there are
  bool shared_ngrams = false;                     // n-grams of other requests too
};

struct Request {
  std::vector<int32_t> prompt;  // token ids, at least one
  SamplingParams sampling;
  int64_t max_tokens = -1;  // -1: until an end token or the context's end; 0: evaluate only
  std::vector<std::string> stops;
  bool show_special = false;
  bool stop_at_end = true;  // false: go on past end-of-generation tokens (unlike ignore_eos, which bans them)
  int n_top_logprobs = 0;   // > 0: TokenSink gets that many alternatives
  // >= 0: on_prompt_token() with so many alternatives. This and wants_hidden compute the whole prompt, whatever is
  // cached, and leave it out of the cache.
  int n_prompt_logprobs = -1;
  bool wants_hidden = false;
  bool cache_prompt = true;  // reuse and keep K/V of this request
  Speculation speculation;
  std::shared_ptr<const Constraint> constraint;  // a grammar that the answer obeys (Engine::constraints()); or none
  TokenSink* sink = nullptr;                     // not owned; outlives the request

  // Parallel samples of one prompt, which is computed once. Sample i draws with seed + i: it is the answer that the
  // request alone would get with that seed. They share the id; each ends for itself.
  int n = 1;
  std::vector<TokenSink*> sinks;  // with n > 1 in place of `sink`: one per sample
  // Higher goes first: for admission, for prompt rows and for who keeps its pages. A request that waits rises one
  // class per EngineConfig::ageing_ms, so none waits for ever.
  int priority = 0;
  int64_t timeout_ms = -1;  // from submit to the last token, then kDeadline; -1: none
};

using RequestId = int64_t;

// Engine::submit refuses a request because max_queue others wait: nothing is wrong with it, later it may be taken.
class QueueFull : public Error {
 public:
  explicit QueueFull(const std::string& message) : Error(ErrorKind::kUnsupported, message) {}
};

}  // namespace loci
