// What the engine delivers, gathered choice by choice, and the JSON answer made of it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text/tokenizer.h"
#include "server/completion_request.h"

namespace loci::server {

struct TokenRecord {
  TokenProb chosen;
  std::vector<TokenProb> top;  // best first
  std::string bytes;
};

// Gathers one choice. One thread calls it, as with every sink.
class ChoiceRecorder : public TokenSink {
 public:
  // Keeps log-probabilities when the request asks for them. `tokenizer` outlives the recorder.
  ChoiceRecorder(const CompletionRequest& request, const Tokenizer& tokenizer);

  void on_prompt(int64_t done, int64_t total, int64_t cached) override;
  void on_prompt_token(int64_t position, std::span<const TokenProb> top) override;
  void on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) override;
  void on_finish(std::string_view text, const RequestStats& stats) override;

  // When, since the start, what comes next came. Only for stats() before the end.
  void note_time(double ms);

  bool finished() const { return finished_; }
  int n_top() const { return n_top_; }            // alternatives; -1: no log-probabilities
  int64_t n_tokens() const { return n_tokens_; }  // so far
  const std::string& text() const { return text_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const RequestStats& stats() const { return stats_; }  // before the end: counts and times so far
  const std::vector<TokenRecord>& records() const { return records_; }
  // Alternatives of the prompt's tokens from its second on, each with the token itself among or behind them.
  const std::vector<std::vector<TokenProb>>& prompt_tops() const { return prompt_tops_; }
  const std::vector<float>& pooled() const { return pooled_; }
  void set_pooled(std::vector<float> pooled) { pooled_ = std::move(pooled); }

 private:
  const Tokenizer& tokenizer_;
  int n_top_ = -1;  // -1: no log-probabilities
  bool at_start_ = true, finished_ = false;
  int64_t n_tokens_ = 0;
  double now_ms_ = 0, first_token_ms_ = 0;
  std::vector<int32_t> tokens_;
  std::string text_;
  RequestStats stats_;
  std::vector<TokenRecord> records_;
  std::vector<std::vector<TokenProb>> prompt_tops_;
  std::vector<float> pooled_;
};

// What an answer says of where it comes from.
struct ResponseStamp {
  std::string id;  // "chatcmpl-..."
  int64_t created_unix_s = 0;
  std::string model;
  std::string fingerprint;
};

// The body of a whole (not streamed) answer, with usage and timings. REQUIRES: every choice has finished, none with
// kError or kCancelled; choices.size() == request.n_choices().
Json completion_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices,
                     const Tokenizer& tokenizer, const ResponseStamp& stamp);

// "stop", "length" or "tool_calls". REQUIRES: the choice has ended, not with kError or kCancelled.
const char* finish_reason(const RequestStats& stats, bool has_calls = false);
// {"content": [{"id", "token", "bytes", "logprob", "top_logprobs"}]}
Json logprobs_json(std::span<const TokenRecord> records, const Tokenizer& tokenizer);

// {"prompt_tokens", "completion_tokens", ...}. A prompt counts once, however many answers it has.
Json usage_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices);
// {"cache_n", "prompt_n", ...}, sums over the choices; a prompt counts once. With "cache_miss", why the cache did not
// have more of a prompt: {"cause", "position"}.
Json timings_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices);
Json timings_of_choice(const ChoiceRecorder& choice);

}  // namespace loci::server
