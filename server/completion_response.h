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

  void on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) override;
  void on_finish(std::string_view text, const RequestStats& stats) override;

  bool finished() const { return finished_; }
  int64_t n_tokens() const { return n_tokens_; }  // so far
  const std::string& text() const { return text_; }
  const RequestStats& stats() const { return stats_; }  // once finished
  const std::vector<TokenRecord>& records() const { return records_; }

 private:
  const Tokenizer& tokenizer_;
  int n_top_ = -1;  // -1: no log-probabilities
  bool at_start_ = true, finished_ = false;
  int64_t n_tokens_ = 0;
  std::string text_;
  RequestStats stats_;
  std::vector<TokenRecord> records_;
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

// {"prompt_tokens", "completion_tokens", ...}. A prompt counts once, however many answers it has.
Json usage_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices);
// {"cache_n", "prompt_n", ...}, sums over the choices; a prompt counts once.
Json timings_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices);

}  // namespace loci::server
