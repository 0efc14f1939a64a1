#include "server/completion_response.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/kv/cache_report.h"
#include "engine/text/unicode.h"
#include "kernels/check.h"
#include "server/request_output.h"

namespace loci::server {
namespace {

// JSON has no infinity: the lowest float stands for it.
float finite_logprob(float logprob) { return std::isfinite(logprob) ? logprob : std::numeric_limits<float>::lowest(); }

Json token_json(const TokenProb& prob, const std::string& bytes) {
  Json out;
  out["id"] = prob.token;
  out["token"] = bytes;
  out["bytes"] = Json::array();
  for (const char byte : bytes) out["bytes"].push_back(static_cast<unsigned char>(byte));
  out["logprob"] = finite_logprob(prob.logprob);
  return out;
}

Json message_json(const ParsedOutput& parts) {
  Json message;
  message["role"] = "assistant";
  message["content"] = parts.content.empty() && !parts.calls.empty() ? Json() : Json(parts.content);
  if (!parts.reasoning.empty()) message["reasoning_content"] = parts.reasoning;
  for (const ParsedCall& call : parts.calls) {
    Json entry;
    entry["id"] = call.id;
    entry["type"] = "function";
    entry["function"]["name"] = call.name;
    entry["function"]["arguments"] = call.arguments;
    message["tool_calls"].push_back(std::move(entry));
  }
  return message;
}

// The lists of OpenAI's older API: each token, how probable it was, alternatives, where its text starts (in
// characters). `prompt`: its tokens come first; nothing is known of the first one.
class LegacyLogprobs {
 public:
  explicit LegacyLogprobs(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) out_[name] = Json::array();
  }

  void add(int32_t token, const std::string& bytes, std::span<const TokenProb> known, size_t n_top) {
    out_["tokens"].push_back(spelled(bytes.empty() ? tokenizer_.token_bytes(token, true) : bytes));
    out_["text_offset"].push_back(offset_);
    for (const char byte : bytes) offset_ += (static_cast<unsigned char>(byte) & 0xc0) != 0x80 ? 1 : 0;
    const auto own = std::find_if(known.begin(), known.end(), [&](const TokenProb& p) { return p.token == token; });
    if (own == known.end()) {
      out_["token_logprobs"].push_back(nullptr);
      out_["top_logprobs"].push_back(nullptr);
      return;
    }
    out_["token_logprobs"].push_back(finite_logprob(own->logprob));
    Json top = Json::object();
    for (const TokenProb& prob : known.first(std::min(n_top, known.size()))) {
      top.emplace(spelled(tokenizer_.token_bytes(prob.token, true)), finite_logprob(prob.logprob));
    }
    out_["top_logprobs"].push_back(std::move(top));
  }
  Json take() { return std::move(out_); }

 private:
  // What is no UTF-8 is spelled as OpenAI does, so that names stay distinct: "bytes:\xe2\x80".
  static std::string spelled(const std::string& bytes) {
    if (unicode::is_valid(bytes)) return bytes;
    std::string out = "bytes:";
    for (const char byte : bytes) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
      out += hex;
    }
    return out;
  }
  const Tokenizer& tokenizer_;
  Json out_;
  int64_t offset_ = 0;
};

Json legacy_logprobs_json(const ChoiceRecorder& choice, const std::vector<int32_t>* prompt,
                          const Tokenizer& tokenizer) {
  LegacyLogprobs out(tokenizer);
  const std::vector<std::vector<TokenProb>>& tops = choice.prompt_tops();
  bool at_start = true;
  for (size_t i = 0; prompt != nullptr && i < prompt->size(); ++i) {
    const bool known = i > 0 && i - 1 < tops.size();
    const std::vector<TokenProb>& top = known ? tops[i - 1] : std::vector<TokenProb>();
    // The token itself stands behind the alternatives when it is not one of them.
    const size_t n_top = static_cast<size_t>(choice.n_top());
    out.add((*prompt)[i], tokenizer.decode_next((*prompt)[i], false, at_start), top, n_top);
  }
  for (const TokenRecord& record : choice.records()) {
    std::vector<TokenProb> known = record.top;
    const size_t n_top = known.size();
    known.push_back(record.chosen);
    out.add(record.chosen.token, record.bytes, known, n_top);
  }
  return out.take();
}

// Sums of what timings are made of.
struct Timings {
  int64_t cached = 0, prompt = 0, predicted = 0, drafted = 0, accepted = 0;
  double prompt_ms = 0, predicted_ms = 0;
  const CacheReport* miss = nullptr;  // of the first prompt that was missed

  void add(const RequestStats& stats, bool with_prompt) {
    predicted += stats.n_predicted;
    predicted_ms += stats.predicted_ms;
    drafted += stats.speculation.n_drafted;
    accepted += stats.speculation.n_accepted;
    if (!with_prompt) return;
    cached += stats.n_cached;
    prompt += stats.n_prompt - stats.n_cached;
    prompt_ms += stats.prompt_ms;
    if (miss == nullptr && stats.cache.cause != MissCause::kNone) miss = &stats.cache;
  }

  Json json() const {
    const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0.0; };
    const auto n_prompt = static_cast<double>(prompt), n_predicted = static_cast<double>(predicted);
    Json out;
    out["cache_n"] = cached;
    out["prompt_n"] = prompt;
    out["prompt_ms"] = prompt_ms;
    out["prompt_per_token_ms"] = ratio(prompt_ms, n_prompt);
    out["prompt_per_second"] = ratio(1000 * n_prompt, prompt_ms);
    out["predicted_n"] = predicted;
    out["predicted_ms"] = predicted_ms;
    out["predicted_per_token_ms"] = ratio(predicted_ms, n_predicted);
    out["predicted_per_second"] = ratio(1000 * n_predicted, predicted_ms);
    if (drafted > 0) {
      out["draft_n"] = drafted;
      out["draft_n_accepted"] = accepted;
    }
    // What the cache holds instead may stem from somebody else's request: it is not told.
    if (miss != nullptr) {
      out["cache_miss"]["cause"] = name(miss->cause);
      if (miss->first_difference >= 0) out["cache_miss"]["position"] = miss->first_difference;
    }
    return out;
  }
};

}  // namespace

const char* finish_reason(const RequestStats& stats, bool has_calls) {
  switch (stats.reason) {
    case FinishReason::kEndToken:
    case FinishReason::kStopString:
      return has_calls ? "tool_calls" : "stop";
    case FinishReason::kLimit:
    case FinishReason::kContextFull:
    case FinishReason::kDeadline:
      return "length";
    case FinishReason::kCancelled:
    case FinishReason::kError:
      break;
  }
  LOCI_CHECK(false, "an unfinished choice has no finish reason");
}

Json logprobs_json(std::span<const TokenRecord> records, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenRecord& record : records) {
    Json entry = token_json(record.chosen, record.bytes);
    entry["top_logprobs"] = Json::array();
    for (const TokenProb& prob : record.top) {
      entry["top_logprobs"].push_back(token_json(prob, tokenizer.token_bytes(prob.token, true)));
    }
    content.push_back(std::move(entry));
  }
  Json out;
  out["content"] = std::move(content);
  return out;
}

ChoiceRecorder::ChoiceRecorder(const CompletionRequest& request, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), n_top_(request.logprobs ? request.top_logprobs : -1) {}

void ChoiceRecorder::note_time(double ms) { now_ms_ = ms; }

void ChoiceRecorder::on_prompt(int64_t, int64_t total, int64_t cached) {
  stats_.n_prompt = total;
  stats_.n_cached = cached;
}

void ChoiceRecorder::on_prompt_token(int64_t, std::span<const TokenProb> top) {
  prompt_tops_.emplace_back(top.begin(), top.end());
}

void ChoiceRecorder::on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) {
  if (n_tokens_ == 0) first_token_ms_ = stats_.prompt_ms = now_ms_;
  stats_.n_predicted = ++n_tokens_;
  stats_.predicted_ms = now_ms_ - first_token_ms_;
  tokens_.push_back(token);
  text_ += text;
  if (n_top_ < 0) return;
  TokenRecord record;
  record.bytes = tokenizer_.decode_next(token, false, at_start_);
  const auto chosen = std::find_if(top.begin(), top.end(), [&](const TokenProb& p) { return p.token == token; });
  record.chosen = chosen == top.end() ? TokenProb{token, -std::numeric_limits<float>::infinity()} : *chosen;
  record.top.assign(top.begin(), top.begin() + std::min<ptrdiff_t>(n_top_, std::ssize(top)));
  records_.push_back(std::move(record));
}

void ChoiceRecorder::on_finish(std::string_view text, const RequestStats& stats) {
  text_ += text;
  stats_ = stats;
  finished_ = true;
  if (stats.reason == FinishReason::kEndToken && !records_.empty()) records_.pop_back();
  // Tokens of a stop string are no part of the answer.
  size_t n_bytes = 0;
  const auto past = std::find_if(records_.begin(), records_.end(), [&](const TokenRecord& record) {
    const bool is_past = stats.reason == FinishReason::kStopString && n_bytes >= text_.size();
    n_bytes += record.bytes.size();
    return is_past;
  });
  records_.erase(past, records_.end());
}

Json usage_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices) {
  int64_t n_prompt = 0, n_cached = 0, n_predicted = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const RequestStats& stats = choices[i]->stats();
    n_predicted += stats.n_predicted;
    if (i % static_cast<size_t>(request.n) != 0) continue;
    n_prompt += stats.n_prompt;
    n_cached += stats.n_cached;
  }
  Json usage;
  usage["completion_tokens"] = n_predicted;
  usage["prompt_tokens"] = n_prompt;
  usage["total_tokens"] = n_prompt + n_predicted;
  usage["prompt_tokens_details"]["cached_tokens"] = n_cached;
  return usage;
}

Json timings_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices) {
  Timings timings;
  for (size_t i = 0; i < choices.size(); ++i) {
    timings.add(choices[i]->stats(), i % static_cast<size_t>(request.n) == 0);
  }
  return timings.json();
}

Json timings_of_choice(const ChoiceRecorder& choice) {
  Timings timings;
  timings.add(choice.stats(), true);
  return timings.json();
}

Json completion_json(const CompletionRequest& request, std::span<const ChoiceRecorder* const> choices,
                     const Tokenizer& tokenizer, const ResponseStamp& stamp) {
  LOCI_CHECK(choices.size() == request.n_choices(), "expected ", request.n_choices(), " choices, found ",
             choices.size());
  const bool is_chat = request.endpoint == Endpoint::kChatCompletions;
  Json out;
  out["id"] = stamp.id;
  out["object"] = is_chat ? "chat.completion" : "text_completion";
  out["created"] = stamp.created_unix_s;
  out["model"] = stamp.model;
  out["system_fingerprint"] = stamp.fingerprint;
  out["choices"] = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const ChoiceRecorder& choice = *choices[i];
    Json entry;
    entry["index"] = i;
    bool has_calls = false;
    if (is_chat) {
      const ParsedOutput parts = parse_output(request, choice.text(), id_seed_of(stamp.id, i));
      has_calls = !parts.calls.empty();
      entry["message"] = message_json(parts);
    } else {
      const std::string echoed = request.echoed.empty() ? "" : request.echoed[i / static_cast<size_t>(request.n)];
      entry["text"] = echoed + choice.text();
    }
    entry["logprobs"] = request.logprobs ? logprobs_json(choice.records(), tokenizer) : Json();
    if (request.logprobs && !is_chat) {
      const std::vector<int32_t>& prompt = request.prompts[i / static_cast<size_t>(request.n)].tokens;
      entry["logprobs"].update(legacy_logprobs_json(choice, request.prompt_logprobs ? &prompt : nullptr, tokenizer));
    }
    entry["finish_reason"] = finish_reason(choice.stats(), has_calls);
    out["choices"].push_back(std::move(entry));
  }
  out["usage"] = usage_json(request, choices);
  out["timings"] = timings_json(request, choices);
  return out;
}

}  // namespace loci::server
