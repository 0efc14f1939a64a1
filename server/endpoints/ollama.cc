// Ollama's API: /api/chat, /api/generate and what its clients ask first. Streams are JSON lines.
#include <ctime>

#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"
#include "server/json.h"

namespace loci::server {
namespace {

constexpr double kNsPerMs = 1e6;

std::string utc_time(std::time_t time) {
  char text[32];
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t nanoseconds(double ms) { return static_cast<int64_t>(ms * kNsPerMs); }

// Fields of a body of /v1/chat/completions or /v1/completions, from those that both of Ollama's endpoints have.
Json common_fields(const BodyFields& body) {
  Json out = Json::object();
  if (const Json* options = body.find("options")) {
    if (!options->is_object()) reject_field("options", "expected an object, found ", excerpt(*options));
    out = *options;  // most have our names
    if (options->contains("num_predict")) {
      const Json& n = (*options)["num_predict"];
      // -2: fill the context, which ends an answer here as well.
      out["max_tokens"] = n.is_number_integer() && n < 0 ? Json(-1) : n;
    }
  }
  out["stream"] = body.boolean("stream").value_or(true);
  if (const Json* format = body.find("format"); format != nullptr && *format != "") {
    if (*format == "json") {
      out["response_format"]["type"] = "json_object";
    } else if (format->is_object()) {
      out["response_format"]["type"] = "json_schema";
      out["response_format"]["json_schema"] = {{"name", "format"}, {"schema", *format}};
    } else {
      reject_field("format", "expected \"json\" or a schema, found ", excerpt(*format));
    }
  }
  if (const Json* think = body.find("think")) {
    if (think->is_string()) {
      out["reasoning_effort"] = *think;
    } else {
      out["chat_template_kwargs"]["enable_thinking"] = body.boolean("think").value_or(true);
    }
  }
  return out;
}

// Their messages differ in images, "thinking" and calls without ids and types.
Json messages_of(const Json& list) {
  Json messages = list;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object()) continue;  // refused with its place by whoever reads them
    if (message.contains("images") && !message["images"].empty()) {
      refuse_field(str("messages[", i, "].images"), "models see text only");
    }
    if (message.contains("thinking")) message["reasoning_content"] = message["thinking"];
    if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) {
      if (call.is_object()) call["type"] = "function";
    }
  }
  return messages;
}

class OllamaFormat : public AnswerFormat {
 public:
  explicit OllamaFormat(bool is_chat) : is_chat_(is_chat) {}
  const char* stream_type() const override { return "application/x-ndjson"; }

  Json whole(const AnswerView& a) override {
    const ParsedOutput parts = parse_output(a.request, a.choices[0]->text(), id_seed_of(a.stamp.id, 0));
    Json out = last_line(a);
    put_text(out, parts.content);
    if (!parts.reasoning.empty()) put_thinking(out, parts.reasoning);
    for (const ParsedCall& call : parts.calls) out["message"]["tool_calls"].push_back(call_json(call));
    return out;
  }

  void delta(EventStream& out, const AnswerView& a, const ChoiceDelta& delta) override {
    calls_.add(delta.parts);
    for (const OutputDelta& part : delta.parts) {
      if (part.kind == OutputDelta::Kind::kToolCall) continue;  // whole calls alone, at the end
      Json line = start_line(a);
      const bool thinks = part.kind == OutputDelta::Kind::kReasoning;
      put_text(line, thinks ? "" : part.text);
      if (thinks) put_thinking(line, part.text);
      line["done"] = false;
      out.line(line);
    }
  }

  void finish(EventStream& out, const AnswerView& a, size_t) override {
    if (!calls_.calls.empty()) {
      Json line = start_line(a);
      put_text(line, "");
      for (const ParsedCall& call : calls_.calls) line["message"]["tool_calls"].push_back(call_json(call));
      line["done"] = false;
      out.line(line);
    }
    Json line = last_line(a);
    put_text(line, "");
    out.line(line);
  }
  void end(EventStream&, const AnswerView&) override {}
  void error(EventStream& out, const ApiError& error) override { out.line(error_body(error, ErrorShape::kOllama)); }

 private:
  static Json start_line(const AnswerView& a) {
    Json line;
    line["model"] = a.stamp.model;
    line["created_at"] = utc_time(a.stamp.created_unix_s);
    return line;
  }

  void put_text(Json& line, const std::string& text) const {
    if (is_chat_) {
      line["message"]["role"] = "assistant";
      line["message"]["content"] = text;
    } else {
      line["response"] = text;
    }
  }
  void put_thinking(Json& line, const std::string& text) const {
    (is_chat_ ? line["message"]["thinking"] : line["thinking"]) = text;
  }

  static Json call_json(const ParsedCall& call) {
    Json out;
    out["function"]["name"] = call.name;
    try {
      out["function"]["arguments"] = parse_json(call.arguments, "arguments");
    } catch (const Error&) {
      out["function"]["arguments"] = Json::object();
    }
    return out;
  }

  static Json last_line(const AnswerView& a) {
    const RequestStats& stats = a.choices[0]->stats();
    Json line = start_line(a);
    line["done"] = true;
    line["done_reason"] = finish_reason(stats);
    line["total_duration"] = nanoseconds(stats.queue_ms + stats.prompt_ms + stats.predicted_ms);
    line["load_duration"] = 0;
    line["prompt_eval_count"] = stats.n_prompt;
    line["prompt_eval_duration"] = nanoseconds(stats.prompt_ms);
    line["eval_count"] = stats.n_predicted;
    line["eval_duration"] = nanoseconds(stats.predicted_ms);
    return line;
  }

  bool is_chat_;
  ParsedOutput calls_;
};

Json details_json(const Service& service) {
  Json details;
  details["parent_model"] = "";
  details["format"] = "gguf";
  details["family"] = service.info().architecture;
  details["families"] = Json::array({service.info().architecture});
  details["parameter_size"] = str(static_cast<double>(service.info().n_params / 100000) / 10, "M");
  details["quantization_level"] = service.info().quantization;
  return details;
}

Json model_entry(const Service& service) {
  Json model;
  model["name"] = service.model_name();
  model["model"] = service.model_name();
  model["modified_at"] = utc_time(service.started());
  model["size"] = service.info().file_bytes;
  model["digest"] = service.settings().fingerprint;
  model["details"] = details_json(service);
  return model;
}

Json list_of(Json entry) {
  Json out;
  out["models"] = Json::array({std::move(entry)});
  return out;
}

}  // namespace

void serve_ollama_version(Service&, Exchange& exchange) { exchange.send_json({{"version", LOCI_VERSION}}); }

void serve_ollama_tags(Service& service, Exchange& exchange) { exchange.send_json(list_of(model_entry(service))); }

void serve_ollama_ps(Service& service, Exchange& exchange) {
  Json entry = model_entry(service);
  entry["expires_at"] = "2318-01-01T00:00:00Z";  // never: it stays loaded
  entry["size_vram"] = 0;
  entry["context_length"] = service.defaults().n_ctx;
  exchange.send_json(list_of(std::move(entry)));
}

void serve_ollama_show(Service& service, Exchange& exchange) {
  const RequestDefaults& defaults = service.defaults();
  Json out;
  out["details"] = details_json(service);
  Json& info = out["model_info"];
  info["general.architecture"] = service.info().architecture;
  info["general.parameter_count"] = service.info().n_params;
  info[service.info().architecture + ".context_length"] = service.info().n_ctx_train;
  info[service.info().architecture + ".embedding_length"] = service.embedding_size();
  info["tokenizer.ggml.model"] = service.tokenizer().model_name();
  out["template"] = defaults.chat_template == nullptr ? "" : defaults.chat_template->source();
  out["parameters"] = "";
  out["capabilities"] = Json::array({"completion"});
  exchange.send_json(out);
}

void serve_ollama_chat(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  const BodyFields fields(json);
  Json body = common_fields(fields);
  const Json* messages = fields.list("messages");
  if (messages == nullptr) fail(ErrorKind::kInvalidInput, "'messages' is required");
  body["messages"] = messages_of(*messages);
  if (const Json* tools = fields.list("tools")) body["tools"] = *tools;
  CompletionRequest request = parse_completion(Endpoint::kChatCompletions, body, service.defaults());
  run_answer(service, exchange, std::move(request), "ollama-", std::make_unique<OllamaFormat>(true));
}

void serve_ollama_generate(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  const BodyFields fields(json);
  Json body = common_fields(fields);
  for (const char* name : {"suffix", "template", "context", "images"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && !value->empty() && *value != "") refuse_field(name, "found ", excerpt(*value));
  }
  const std::string prompt = fields.string("prompt").value_or("");
  const bool raw = fields.boolean("raw").value_or(false) || service.defaults().chat_template == nullptr;
  if (raw) {
    body["prompt"] = prompt;
  } else {
    body["messages"] = Json::array();
    if (const auto system = fields.string("system"); system && !system->empty()) {
      body["messages"].push_back({{"role", "system"}, {"content", *system}});
    }
    body["messages"].push_back({{"role", "user"}, {"content", prompt}});
  }
  const Endpoint endpoint = raw ? Endpoint::kCompletions : Endpoint::kChatCompletions;
  CompletionRequest request = parse_completion(endpoint, body, service.defaults());
  run_answer(service, exchange, std::move(request), "ollama-", std::make_unique<OllamaFormat>(false));
}

}  // namespace loci::server
