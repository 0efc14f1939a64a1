// POST /v1/responses: OpenAI's newer API.
#include <ctime>

#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"
#include "server/responses_body.h"

namespace loci::server {
namespace {

Json text_part(const std::string& text) {
  Json part;
  part["type"] = "output_text";
  part["text"] = text;
  part["annotations"] = Json::array();
  part["logprobs"] = Json::array();
  return part;
}

Json reasoning_part(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

// An item of the output; its text is complete, or "" while it streams.
Json item_json(OutputDelta::Kind kind, const std::string& id, const ParsedCall& value, const char* status) {
  Json item;
  switch (kind) {
    case OutputDelta::Kind::kReasoning:
      item["id"] = id;
      item["type"] = "reasoning";
      item["summary"] = Json::array();
      item["content"] = Json::array();
      if (!value.arguments.empty()) item["content"].push_back(reasoning_part(value.arguments));
      item["encrypted_content"] = "";
      break;
    case OutputDelta::Kind::kContent:
      item["id"] = id;
      item["type"] = "message";
      item["role"] = "assistant";
      item["content"] = Json::array();
      if (std::string_view(status) != "in_progress") item["content"].push_back(text_part(value.arguments));
      break;
    case OutputDelta::Kind::kToolCall:
      item["id"] = id;
      item["type"] = "function_call";
      item["call_id"] = value.id;
      item["name"] = value.name;
      item["arguments"] = value.arguments;
      break;
  }
  item["status"] = status;
  return item;
}

class ResponsesFormat : public AnswerFormat {
 public:
  Json whole(const AnswerView& a) override {
    const ParsedOutput parts = parse_output(a.request, a.choices[0]->text(), id_seed_of(a.stamp.id, 0));
    Json output = Json::array();
    const auto add = [&](OutputDelta::Kind kind, const ParsedCall& value) {
      output.push_back(item_json(kind, item_id(a, kind, output.size()), value, "completed"));
    };
    if (!parts.reasoning.empty()) add(OutputDelta::Kind::kReasoning, {"", "", parts.reasoning});
    if (!parts.content.empty() || parts.calls.empty()) add(OutputDelta::Kind::kContent, {"", "", parts.content});
    for (const ParsedCall& call : parts.calls) add(OutputDelta::Kind::kToolCall, call);
    return finished_response(a, std::move(output));
  }

  void begin(EventStream& out, const AnswerView& a) override {
    const Json response = start_response(a, "in_progress");
    send(out, "response.created", {{"response", response}});
    send(out, "response.in_progress", {{"response", response}});
  }

  void delta(EventStream& out, const AnswerView& a, const ChoiceDelta& delta) override {
    for (const OutputDelta& part : delta.parts) {
      open_item(out, a, part);
      current_.arguments += part.text;
      if (part.text.empty()) continue;
      Json event = place();
      event["delta"] = part.text;
      if (part.kind == OutputDelta::Kind::kContent) event["logprobs"] = Json::array();
      send(out, name_of(part.kind) + ".delta", std::move(event));
    }
  }

  void finish(EventStream& out, const AnswerView& a, size_t) override {
    if (output_.empty() && !open_) open_item(out, a, {});  // an empty answer is an empty text
    close_item(out);
    const Json response = finished_response(a, output_);
    const bool complete = response["status"] == "completed";
    send(out, complete ? "response.completed" : "response.incomplete", {{"response", response}});
  }
  void end(EventStream&, const AnswerView&) override {}

  void error(EventStream& out, const ApiError& error) override {
    Json event;
    event["code"] = error.type;
    event["message"] = error.message;
    event["param"] = nullptr;
    send(out, "error", std::move(event));
  }

 private:
  static std::string name_of(OutputDelta::Kind kind) {
    switch (kind) {
      case OutputDelta::Kind::kReasoning:
        return "response.reasoning_text";
      case OutputDelta::Kind::kToolCall:
        return "response.function_call_arguments";
      default:
        return "response.output_text";
    }
  }

  static std::string item_id(const AnswerView& a, OutputDelta::Kind kind, size_t index) {
    const char* prefix = kind == OutputDelta::Kind::kReasoning ? "rs_"
                         : kind == OutputDelta::Kind::kContent ? "msg_"
                                                               : "fc_";
    return prefix + a.stamp.id.substr(a.stamp.id.find('_') + 1) + std::to_string(index);
  }

  static Json start_response(const AnswerView& a, const char* status) {
    Json response;
    response["id"] = a.stamp.id;
    response["object"] = "response";
    response["created_at"] = a.stamp.created_unix_s;
    response["status"] = status;
    response["error"] = nullptr;
    response["incomplete_details"] = nullptr;
    response["instructions"] = nullptr;
    response["model"] = a.stamp.model;
    response["output"] = Json::array();
    response["parallel_tool_calls"] = true;
    response["tool_choice"] = "auto";
    response["tools"] = Json::array();
    response["temperature"] = a.request.sampling.temperature;
    response["top_p"] = a.request.sampling.top_p;
    response["metadata"] = Json::object();
    return response;
  }

  static Json finished_response(const AnswerView& a, Json output) {
    const RequestStats& stats = a.choices[0]->stats();
    const bool cut = std::string_view(finish_reason(stats)) == "length";
    Json response = start_response(a, cut ? "incomplete" : "completed");
    if (cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["completed_at"] = std::time(nullptr);
    response["output"] = std::move(output);
    Json& usage = response["usage"];
    usage["input_tokens"] = stats.n_prompt;
    usage["output_tokens"] = stats.n_predicted;
    usage["total_tokens"] = stats.n_prompt + stats.n_predicted;
    usage["input_tokens_details"]["cached_tokens"] = stats.n_cached;
    usage["output_tokens_details"]["reasoning_tokens"] = 0;
    response["timings"] = timings_json(a.request, a.choices);
    return response;
  }

  void send(EventStream& out, const std::string& name, Json fields) {
    Json event;
    event["type"] = name;
    event["sequence_number"] = n_events_++;
    event.update(fields);
    out.event(name, event);
  }

  // What events of the open item carry.
  Json place() const {
    Json event;
    event["item_id"] = id_;
    event["output_index"] = output_.size();
    if (kind_ != OutputDelta::Kind::kToolCall) event["content_index"] = 0;
    return event;
  }

  void open_item(EventStream& out, const AnswerView& a, const OutputDelta& part) {
    const int call = part.kind == OutputDelta::Kind::kToolCall ? part.call : -1;
    if (open_ && kind_ == part.kind && call_ == call) return;
    close_item(out);
    open_ = true;
    kind_ = part.kind;
    call_ = call;
    id_ = item_id(a, kind_, output_.size());
    current_ = {part.id, part.name, ""};
    send(out, "response.output_item.added",
         {{"output_index", output_.size()}, {"item", item_json(kind_, id_, current_, "in_progress")}});
    if (kind_ == OutputDelta::Kind::kToolCall) return;
    Json event = place();
    event["part"] = kind_ == OutputDelta::Kind::kContent ? text_part("") : reasoning_part("");
    send(out, "response.content_part.added", std::move(event));
  }

  void close_item(EventStream& out) {
    if (!open_) return;
    open_ = false;
    Json event = place();
    event[kind_ == OutputDelta::Kind::kToolCall ? "arguments" : "text"] = current_.arguments;
    if (kind_ == OutputDelta::Kind::kToolCall) event["name"] = current_.name;
    if (kind_ == OutputDelta::Kind::kContent) event["logprobs"] = Json::array();
    send(out, name_of(kind_) + ".done", std::move(event));
    if (kind_ != OutputDelta::Kind::kToolCall) {
      Json part = place();
      part["part"] =
          kind_ == OutputDelta::Kind::kContent ? text_part(current_.arguments) : reasoning_part(current_.arguments);
      send(out, "response.content_part.done", std::move(part));
    }
    Json item = item_json(kind_, id_, current_, "completed");
    send(out, "response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
    output_.push_back(std::move(item));
  }

  int n_events_ = 0;
  bool open_ = false;
  OutputDelta::Kind kind_ = OutputDelta::Kind::kContent;
  int call_ = -1;
  std::string id_;
  ParsedCall current_;  // `arguments` holds the text of any kind of item
  Json output_ = Json::array();
};

}  // namespace

void serve_responses(Service& service, Exchange& exchange) {
  const Json body = chat_body_of_responses(exchange.json());
  CompletionRequest request = parse_completion(Endpoint::kChatCompletions, body, service.defaults());
  if (request.n != 1) reject_field("n", "expected 1, found ", request.n);
  run_answer(service, exchange, std::move(request), "resp_", std::make_unique<ResponsesFormat>());
}

void serve_count_response_tokens(Service& service, Exchange& exchange) {
  const Json body = chat_body_of_responses(exchange.json());
  Json out;
  out["object"] = "response.input_tokens";
  out["input_tokens"] = encode_chat(service.tokenizer(), render_chat(body, service.defaults(), true)).tokens.size();
  exchange.send_json(out);
}

}  // namespace loci::server
