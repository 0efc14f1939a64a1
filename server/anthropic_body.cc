#include "server/anthropic_body.h"

#include <algorithm>

namespace loci::server {
namespace {

constexpr int64_t kDefaultMaxTokens = 4096;
constexpr std::string_view kPseudoHeaders[] = {"x-anthropic-billing-header:"};

std::string type_of(const Json& block, const std::string& where) {
  if (!block.is_object() || !block.contains("type") || !block["type"].is_string()) {
    reject_field(where, "expected blocks with a 'type', found ", excerpt(block));
  }
  return block["type"].get<std::string>();
}

std::string text_of(const Json& block, const char* name, const std::string& where) {
  if (!block.contains(name) || !block[name].is_string()) {
    reject_field(where, "expected a block with a string '", name, "', found ", excerpt(block));
  }
  return block[name].get<std::string>();
}

// A string, or text blocks.
std::string read_text_blocks(const Json& json, const std::string& where) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) reject_field(where, "expected a string or a list of blocks, found ", excerpt(json));
  std::string text;
  for (const Json& block : json) {
    const std::string type = type_of(block, where);
    if (type != "text") refuse_field(where, "blocks of type ", type.substr(0, 40));
    text += text_of(block, "text", where);
  }
  return text;
}

Json tool_call_of(const Json& block, const std::string& where) {
  Json call;
  call["id"] = text_of(block, "id", where);
  call["type"] = "function";
  call["function"]["name"] = text_of(block, "name", where);
  call["function"]["arguments"] = block.contains("input") ? block["input"].dump() : "{}";
  return call;
}

Json tool_message_of(const Json& block, const std::string& where) {
  Json message;
  message["role"] = "tool";
  message["tool_call_id"] = text_of(block, "tool_use_id", where);
  const bool empty = !block.contains("content") || block["content"].is_null();
  message["content"] = empty ? "" : read_text_blocks(block["content"], where + ".content");
  return message;
}

// One message becomes several where it holds results of tools.
void add_message(const Json& message, const std::string& where, Json& out) {
  if (!message.is_object()) reject_field(where, "expected an object, found ", excerpt(message));
  const std::string role = text_of(message, "role", where);
  if (!message.contains("content")) reject_field(where, "'content' is required");
  const Json& content = message["content"];
  if (content.is_string()) {
    out.push_back({{"role", role}, {"content", content}});
    return;
  }
  if (!content.is_array()) reject_field(where, "expected a string or a list of blocks, found ", excerpt(content));
  Json plain;
  plain["role"] = role;
  std::string text, thinking;
  Json calls = Json::array();
  for (const Json& block : content) {
    const std::string type = type_of(block, where);
    if (type == "text") {
      text += text_of(block, "text", where);
    } else if (type == "thinking") {
      thinking += text_of(block, "thinking", where);
    } else if (type == "redacted_thinking") {
      continue;
    } else if (type == "tool_use") {
      calls.push_back(tool_call_of(block, where));
    } else if (type == "tool_result") {
      out.push_back(tool_message_of(block, where));
    } else {
      refuse_field(where, "blocks of type ", type.substr(0, 40));
    }
  }
  const bool only_results = text.empty() && calls.empty() && !content.empty() && thinking.empty();
  if (only_results && type_of(content[0], where) == "tool_result") return;
  plain["content"] = text;
  if (!thinking.empty()) plain["reasoning_content"] = thinking;
  if (!calls.empty()) plain["tool_calls"] = calls;
  out.push_back(std::move(plain));
}

Json tools_of(const Json& tools) {
  Json out = Json::array();
  for (const Json& tool : tools) {
    Json function;
    function["name"] = text_of(tool, "name", "tools");
    if (tool.contains("description")) function["description"] = tool["description"];
    if (tool.contains("input_schema")) function["parameters"] = tool["input_schema"];
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Json tool_choice_of(const Json& choice) {
  const std::string type = type_of(choice, "tool_choice");
  if (type == "any") return "required";
  if (type != "tool") return type;  // auto, none
  return {{"type", "function"}, {"function", {{"name", text_of(choice, "name", "tool_choice")}}}};
}

}  // namespace

std::string without_pseudo_headers(const std::string& system) {
  std::string out;
  for (size_t at = 0; at < system.size();) {
    const size_t end = std::min(system.find('\n', at), system.size() - 1) + 1;
    const std::string_view line = std::string_view(system).substr(at, end - at);
    const bool dropped = std::any_of(std::begin(kPseudoHeaders), std::end(kPseudoHeaders),
                                     [&](std::string_view header) { return line.substr(0, header.size()) == header; });
    if (!dropped) out += line;
    at = end;
  }
  return out;
}

Json chat_body_of_anthropic(const Json& body, bool keep_headers) {
  const BodyFields fields(body);
  Json out = body;
  for (const char* name : {"system", "messages", "tools", "tool_choice", "stop_sequences", "thinking", "metadata"}) {
    out.erase(name);
  }
  out["messages"] = Json::array();
  if (const Json* system = fields.find("system")) {
    std::string text = read_text_blocks(*system, "system");
    if (!keep_headers) text = without_pseudo_headers(text);
    if (!text.empty()) out["messages"].push_back({{"role", "system"}, {"content", text}});
  }
  const Json* messages = fields.list("messages");
  if (messages == nullptr) fail(ErrorKind::kInvalidInput, "'messages' is required");
  for (size_t i = 0; i < messages->size(); ++i) add_message((*messages)[i], str("messages[", i, "]"), out["messages"]);
  if (const Json* tools = fields.list("tools")) out["tools"] = tools_of(*tools);
  if (const Json* choice = fields.find("tool_choice")) out["tool_choice"] = tool_choice_of(*choice);
  if (const Json* stops = fields.list("stop_sequences")) out["stop"] = *stops;
  if (fields.find("max_tokens") == nullptr) out["max_tokens"] = kDefaultMaxTokens;
  if (const Json* thinking = fields.find("thinking")) {
    out["chat_template_kwargs"]["enable_thinking"] = type_of(*thinking, "thinking") != "disabled";
  }
  return out;
}

}  // namespace loci::server
