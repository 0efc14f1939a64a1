#include "server/responses_body.h"

namespace loci::server {
namespace {

std::string string_of(const Json& item, const char* name, const std::string& where) {
  if (!item.contains(name) || !item[name].is_string()) {
    reject_field(where, "expected an item with a string '", name, "', found ", excerpt(item));
  }
  return item[name].get<std::string>();
}

// A string, or parts; "" when there is none.
std::string content_of(const Json& item, const std::string& where) {
  if (!item.contains("content") || item["content"].is_null()) return "";
  const Json& content = item["content"];
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) reject_field(where, "expected 'content' as a string or a list, found ", excerpt(content));
  std::string text;
  for (const Json& part : content) {
    const std::string type = part.is_object() ? string_of(part, "type", where) : "";
    if (type == "refusal") {
      text += string_of(part, "refusal", where);
    } else if (type == "input_text" || type == "output_text" || type == "text" || type == "reasoning_text" ||
               type == "summary_text") {
      text += string_of(part, "text", where);
    } else {
      refuse_field(where, "parts of type ", type.substr(0, 40));
    }
  }
  return text;
}

// Calls and thinking belong to the assistant's message beside them.
class Messages {
 public:
  void add(const Json& item, const std::string& where) {
    if (!item.is_object()) reject_field(where, "expected an object, found ", excerpt(item));
    const std::string type = item.contains("type") ? string_of(item, "type", where) : "message";
    if (type == "message") {
      const std::string role = string_of(item, "role", where);
      if (role == "assistant") {
        Json& message = assistant();
        const std::string before = message["content"].is_string() ? message["content"].get<std::string>() : "";
        message["content"] = before + content_of(item, where);
      } else {
        out_.push_back({{"role", role}, {"content", content_of(item, where)}});
      }
    } else if (type == "function_call") {
      Json call;
      call["id"] = string_of(item, "call_id", where);
      call["type"] = "function";
      call["function"]["name"] = string_of(item, "name", where);
      call["function"]["arguments"] = string_of(item, "arguments", where);
      assistant()["tool_calls"].push_back(std::move(call));
    } else if (type == "function_call_output") {
      Json message;
      message["role"] = "tool";
      message["tool_call_id"] = string_of(item, "call_id", where);
      const Json& output = item.contains("output") ? item["output"] : Json();
      message["content"] = content_of({{"content", output}}, where);
      out_.push_back(std::move(message));
    } else if (type == "reasoning") {
      assistant()["reasoning_content"] = content_of(item, where);
    } else {
      refuse_field(where, "items of type ", type.substr(0, 40));
    }
  }
  Json take() { return std::move(out_); }

 private:
  Json& assistant() {
    if (out_.empty() || out_.back()["role"] != "assistant") {
      out_.push_back({{"role", "assistant"}, {"content", nullptr}});
    }
    return out_.back();
  }
  Json out_ = Json::array();
};

Json tools_of(const Json& tools) {
  Json out = Json::array();
  for (const Json& tool : tools) {
    const std::string type = tool.is_object() ? string_of(tool, "type", "tools") : "";
    if (type != "function") refuse_field("tools", "tools of type ", type.substr(0, 40));
    Json function = tool;
    function.erase("type");
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

// {"type": "json_schema", "name", "schema", "strict"} is flat here.
Json response_format_of(const Json& format) {
  if (!format.is_object() || format.value("type", Json()) != "json_schema") return format;
  Json inner = format;
  inner.erase("type");
  return {{"type", "json_schema"}, {"json_schema", std::move(inner)}};
}

}  // namespace

Json chat_body_of_responses(const Json& body) {
  const BodyFields fields(body);
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name) != nullptr) refuse_field(name, "answers are not kept; send the whole conversation as input");
  }
  Json out = body;
  for (const char* name : {"input", "instructions", "tools", "text", "reasoning", "metadata", "store", "include"}) {
    out.erase(name);
  }
  Messages messages;
  if (const auto instructions = fields.string("instructions")) {
    messages.add({{"role", "system"}, {"content", *instructions}}, "instructions");
  }
  const Json* input = fields.find("input");
  if (input == nullptr) fail(ErrorKind::kInvalidInput, "'input' is required");
  if (input->is_string()) {
    messages.add({{"role", "user"}, {"content", *input}}, "input");
  } else if (input->is_array()) {
    for (size_t i = 0; i < input->size(); ++i) messages.add((*input)[i], str("input[", i, "]"));
  } else {
    reject_field("input", "expected a string or a list of items, found ", excerpt(*input));
  }
  out["messages"] = messages.take();
  if (const Json* tools = fields.list("tools")) out["tools"] = tools_of(*tools);
  if (const Json* choice = fields.find("tool_choice"); choice != nullptr && choice->is_object()) {
    out["tool_choice"] = {{"type", "function"}, {"function", {{"name", string_of(*choice, "name", "tool_choice")}}}};
  }
  if (const Json* n = fields.find("max_output_tokens")) out["max_tokens"] = *n;
  if (const Json* text = fields.find("text"); text != nullptr && text->is_object() && text->contains("format")) {
    out["response_format"] = response_format_of((*text)["format"]);
  }
  if (const Json* reasoning = fields.find("reasoning"); reasoning != nullptr && reasoning->is_object()) {
    if (reasoning->contains("effort")) out["reasoning_effort"] = (*reasoning)["effort"];
  }
  return out;
}

}  // namespace loci::server
