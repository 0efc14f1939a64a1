#include "server/completion_response.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "server/request_output.h"

namespace loci::server {
namespace {

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

Json logprobs_json(const ChoiceRecorder& choice, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenRecord& record : choice.records()) {
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

// The message, and whether it ends with calls.
Json message_json(const std::string& text, const CompletionRequest& request, const std::string& id_seed,
                  bool& has_calls) {
  OutputParser parser = output_parser(request, id_seed, false);
  ParsedOutput output;
  output.add(parser.feed(text));
  output.add(parser.finish());
  has_calls = !output.calls.empty();
  Json message;
  message["role"] = "assistant";
  message["content"] = has_calls && output.content.empty() ? Json() : Json(output.content);
  if (!output.reasoning.empty()) message["reasoning_content"] = output.reasoning;
  for (const ParsedCall& call : output.calls) {
    Json entry;
    entry["id"] = call.id;
    entry["type"] = "function";
    entry["function"]["name"] = call.name;
    entry["function"]["arguments"] = call.arguments;
    message["tool_calls"].push_back(std::move(entry));
  }
  return message;
}

}  // namespace

ChoiceRecorder::ChoiceRecorder(const CompletionRequest& request, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), n_top_(request.logprobs ? request.top_logprobs : -1) {}

void ChoiceRecorder::on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) {
  ++n_tokens_;
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
  int64_t cached = 0, prompt = 0, predicted = 0;
  double prompt_ms = 0, predicted_ms = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const RequestStats& stats = choices[i]->stats();
    predicted += stats.n_predicted;
    predicted_ms += stats.predicted_ms;
    if (i % static_cast<size_t>(request.n) != 0) continue;
    cached += stats.n_cached;
    prompt += stats.n_prompt - stats.n_cached;
    prompt_ms += stats.prompt_ms;
  }
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
  return out;
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
      entry["message"] = message_json(choice.text(), request, str(stamp.id, '/', i), has_calls);
    } else {
      const std::string echoed = request.echoed.empty() ? "" : request.echoed[i / static_cast<size_t>(request.n)];
      entry["text"] = echoed + choice.text();
    }
    entry["logprobs"] = request.logprobs ? logprobs_json(choice, tokenizer) : Json();
    entry["finish_reason"] = finish_reason(choice.stats(), has_calls);
    out["choices"].push_back(std::move(entry));
  }
  out["usage"] = usage_json(request, choices);
  out["timings"] = timings_json(request, choices);
  return out;
}

}  // namespace loci::server
