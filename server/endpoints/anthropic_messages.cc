// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API.
#include "server/answer_run.h"
#include "server/anthropic_body.h"
#include "server/endpoints/endpoints.h"
#include "server/json.h"

namespace loci::server {
namespace {

const char* stop_reason(const RequestStats& stats, bool has_calls) {
  switch (stats.reason) {
    case FinishReason::kStopString:
      return "stop_sequence";
    case FinishReason::kLimit:
    case FinishReason::kContextFull:
    case FinishReason::kDeadline:
      return "max_tokens";
    default:
      return has_calls ? "tool_use" : "end_turn";
  }
}

Json usage_of(const RequestStats& stats) {
  Json usage;
  usage["input_tokens"] = stats.n_prompt - stats.n_cached;
  usage["cache_read_input_tokens"] = stats.n_cached;
  usage["cache_creation_input_tokens"] = 0;
  usage["output_tokens"] = stats.n_predicted;
  return usage;
}

// Arguments that a model broke off are no JSON: they are passed on as a text.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  try {
    return parse_json(arguments, "arguments");
  } catch (const Error&) {
    return {{"arguments", arguments}};
  }
}

Json start_message(const AnswerView& a) {
  Json message;
  message["id"] = a.stamp.id;
  message["type"] = "message";
  message["role"] = "assistant";
  message["model"] = a.stamp.model;
  message["content"] = Json::array();
  message["stop_reason"] = nullptr;
  message["stop_sequence"] = nullptr;
  return message;
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

class MessagesFormat : public AnswerFormat {
 public:
  Json whole(const AnswerView& a) override {
    const RequestStats& stats = a.choices[0]->stats();
    const ParsedOutput parts = parse_output(a.request, a.choices[0]->text(), id_seed_of(a.stamp.id, 0));
    Json message = start_message(a);
    Json& content = message["content"];
    if (!parts.reasoning.empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", parts.reasoning}, {"signature", ""}});
    }
    if (!parts.content.empty() || parts.calls.empty()) {
      content.push_back({{"type", "text"}, {"text", parts.content}});
    }
    for (const ParsedCall& call : parts.calls) {
      Json block;
      block["type"] = "tool_use";
      block["id"] = call.id;
      block["name"] = call.name;
      block["input"] = input_of(call.arguments);
      content.push_back(std::move(block));
    }
    message["stop_reason"] = stop_reason(stats, !parts.calls.empty());
    message["stop_sequence"] = or_null(stats.stop_string);
    message["usage"] = usage_of(stats);
    return message;
  }

  void begin(EventStream& out, const AnswerView& a) override {
    Json message = start_message(a);
    RequestStats stats;  // what was cached is not known yet
    stats.n_prompt = static_cast<int64_t>(a.request.prompts[0].tokens.size());
    message["usage"] = usage_of(stats);
    out.event("message_start", {{"type", "message_start"}, {"message", std::move(message)}});
    out.event("ping", {{"type", "ping"}});
  }

  void delta(EventStream& out, const AnswerView&, const ChoiceDelta& delta) override {
    for (const OutputDelta& part : delta.parts) {
      open_block(out, part);
      Json change;
      switch (part.kind) {
        case OutputDelta::Kind::kContent:
          change = {{"type", "text_delta"}, {"text", part.text}};
          break;
        case OutputDelta::Kind::kReasoning:
          change = {{"type", "thinking_delta"}, {"thinking", part.text}};
          break;
        case OutputDelta::Kind::kToolCall:
          if (part.text.empty()) continue;
          change = {{"type", "input_json_delta"}, {"partial_json", part.text}};
          break;
      }
      send_delta(out, std::move(change));
    }
  }

  void finish(EventStream& out, const AnswerView& a, size_t) override {
    if (n_blocks_ == 0) open_block(out, {});  // an empty answer is an empty text
    close_block(out);
    const RequestStats& stats = a.choices[0]->stats();
    Json event;
    event["type"] = "message_delta";
    event["delta"]["stop_reason"] = stop_reason(stats, has_calls_);
    event["delta"]["stop_sequence"] = or_null(stats.stop_string);
    event["usage"] = usage_of(stats);
    out.event("message_delta", event);
  }

  void end(EventStream& out, const AnswerView&) override { out.event("message_stop", {{"type", "message_stop"}}); }

  void error(EventStream& out, const ApiError& error) override {
    out.event("error", error_body(error, ErrorShape::kAnthropic));
  }

 private:
  void send_delta(EventStream& out, Json change) {
    Json event;
    event["type"] = "content_block_delta";
    event["index"] = n_blocks_ - 1;
    event["delta"] = std::move(change);
    out.event("content_block_delta", event);
  }

  // Begins a block unless the part goes on with the one that is open.
  void open_block(EventStream& out, const OutputDelta& part) {
    const int call = part.kind == OutputDelta::Kind::kToolCall ? part.call : -1;
    if (open_ && kind_ == part.kind && call_ == call) return;
    close_block(out);
    open_ = true;
    kind_ = part.kind;
    call_ = call;
    Json event;
    event["type"] = "content_block_start";
    event["index"] = n_blocks_++;
    Json& block = event["content_block"];
    switch (part.kind) {
      case OutputDelta::Kind::kContent:
        block = {{"type", "text"}, {"text", ""}};
        break;
      case OutputDelta::Kind::kReasoning:
        block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
        break;
      case OutputDelta::Kind::kToolCall:
        has_calls_ = true;
        block = {{"type", "tool_use"}, {"id", part.id}, {"name", part.name}, {"input", Json::object()}};
        break;
    }
    out.event("content_block_start", event);
  }

  void close_block(EventStream& out) {
    if (!open_) return;
    if (kind_ == OutputDelta::Kind::kReasoning) send_delta(out, {{"type", "signature_delta"}, {"signature", ""}});
    out.event("content_block_stop", {{"type", "content_block_stop"}, {"index", n_blocks_ - 1}});
    open_ = false;
  }

  bool open_ = false, has_calls_ = false;
  OutputDelta::Kind kind_ = OutputDelta::Kind::kContent;
  int call_ = -1;
  int n_blocks_ = 0;
};

}  // namespace

void serve_messages(Service& service, Exchange& exchange) {
  const Json body = chat_body_of_anthropic(exchange.json(), service.settings().keep_pseudo_headers);
  CompletionRequest request = parse_completion(Endpoint::kChatCompletions, body, service.defaults());
  if (request.n != 1) reject_field("n", "expected 1, found ", request.n);
  run_answer(service, exchange, std::move(request), "msg_", std::make_unique<MessagesFormat>());
}

void serve_count_message_tokens(Service& service, Exchange& exchange) {
  const Json body = chat_body_of_anthropic(exchange.json(), service.settings().keep_pseudo_headers);
  Json out;
  out["input_tokens"] = encode_chat(service.tokenizer(), render_chat(body, service.defaults(), true)).tokens.size();
  exchange.send_json(out);
}

}  // namespace loci::server
