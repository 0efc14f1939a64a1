#include "server/chat_body.h"

#include <algorithm>

#include "kernels/error.h"
#include "server/json.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Parts>
[[noreturn]] void reject(Parts&&... parts) {
  fail(ErrorKind::kInvalidInput, std::forward<Parts>(parts)...);
}

std::string at(size_t i) { return str("messages[", i, "]"); }

bool flag(const Json& body, const char* name, bool fallback) {
  if (!body.contains(name) || body[name].is_null()) return fallback;
  if (!body[name].is_boolean()) reject(name, ": expected true or false, found ", body[name].type_name());
  return body[name].get<bool>();
}

// Letters, digits, '_' and '-': templates put the role next to their control tokens.
bool is_role_name(const std::string& role) {
  return !role.empty() && role.size() <= 64 && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Text of a list of parts, one after the other.
std::string join_parts(const Json& parts, const std::string& where) {
  std::string text;
  for (const Json& part : parts) {
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      reject(where, ".content: expected parts with a 'type', found ",
             part.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80));
    }
    const std::string& type = part["type"].get_ref<const std::string&>();
    if (type != "text" && type != "input_text" && type != "output_text") {
      reject(where, ".content: unsupported content part type '", type, "', expected 'text'");
    }
    if (!part.contains("text") || !part["text"].is_string()) {
      reject(where, ".content: expected a text part with a string 'text'");
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void normalize_content(Json& message, const ChatTemplate& chat_template, const std::string& where) {
  const bool has_calls =
      message.contains("tool_calls") && !message["tool_calls"].is_null() && !message["tool_calls"].empty();
  const bool is_assistant = message["role"] == "assistant";
  Json& content = message["content"];  // null when it was missing
  if (content.is_null()) {
    if (!is_assistant) reject("All non-assistant messages must contain 'content' (", where, ")");
    if (!has_calls) reject("Assistant message must contain either 'content' or 'tool_calls' (", where, ")");
    content = "";
  } else if (content.is_array()) {
    content = join_parts(content, where);
  } else if (!content.is_string()) {
    reject(where, ".content: expected a string, a list of parts or null, found ", content.type_name());
  }
  if (chat_template.wants_content_parts()) {
    Json part = Json::object();
    part["type"] = "text";
    part["text"] = content;
    content = Json::array({part});
  }
}

void normalize_tool_calls(Json& message, const ChatTemplate& chat_template, const std::string& where) {
  if (!message.contains("tool_calls")) return;
  if (message["tool_calls"].is_null()) {
    message.erase("tool_calls");
    return;
  }
  if (!message["tool_calls"].is_array())
    reject(where, ".tool_calls: expected a list, found ", message["tool_calls"].type_name());
  size_t i = 0;
  for (Json& call : message["tool_calls"]) {
    const std::string here = str(where, ".tool_calls[", i++, "]");
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      reject(here, ": expected an object with a 'function'");
    }
    Json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) {
      reject(here, ".function.name: expected a string");
    }
    if (!function.contains("arguments")) continue;
    Json& arguments = function["arguments"];
    if (chat_template.wants_object_arguments()) {
      if (!arguments.is_string()) continue;
      // A history may hold calls that a model broke off: what is no object stays the text it is.
      try {
        Json parsed = parse_json(arguments.get_ref<const std::string&>(), here);
        if (parsed.is_object()) arguments = std::move(parsed);
      } catch (const Error&) {
      }
    } else if (!arguments.is_string()) {
      arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
}

}  // namespace

ChatBody parse_chat_body(const Json& body, const ChatTemplate& chat_template, bool may_prefill) {
  if (!body.is_object()) reject("expected a JSON object, found ", body.type_name());
  if (!body.contains("messages")) reject("'messages' is required");
  if (!body["messages"].is_array()) reject("Expected 'messages' to be an array");
  Json messages = body["messages"];
  size_t i = 0;
  for (Json& message : messages) {
    const std::string where = at(i++);
    if (!message.is_object()) reject(where, ": expected an object, found ", message.type_name());
    if (!message.contains("role") || !message["role"].is_string()) reject(where, ".role: expected a string");
    if (!is_role_name(message["role"].get_ref<const std::string&>())) {
      reject(where, ".role: expected a name such as system, user, assistant or tool, found ",
             message["role"].dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80));
    }
    if (message["role"] == "developer") message["role"] = "system";
    normalize_content(message, chat_template, where);
    normalize_tool_calls(message, chat_template, where);
  }

  ChatBody result;
  ChatTemplateInputs& inputs = result.inputs;
  const bool asks_for_turn = flag(body, "add_generation_prompt", true);
  const bool continues = flag(body, "continue_final_message", may_prefill && asks_for_turn);
  const bool ends_with_text =
      !messages.empty() && messages.back()["role"] == "assistant" && !messages.back().contains("tool_calls");
  if (continues && ends_with_text) {
    const Json& content = messages.back()["content"];
    result.prefill = content.is_array() ? join_parts(content, at(messages.size() - 1)) : content.get<std::string>();
    messages.erase(messages.size() - 1);
    if (!messages.empty() && messages.back()["role"] == "assistant") {
      reject("Cannot have 2 or more assistant messages at the end of the list.");
    }
  }
  inputs.add_generation_prompt = asks_for_turn || (continues && ends_with_text);
  inputs.messages_value = to_value(messages, jinja::Origin::kInput, "messages");
  if (body.contains("tools") && !body["tools"].is_null()) {
    if (!body["tools"].is_array()) reject("tools: expected a list, found ", body["tools"].type_name());
    if (!body["tools"].empty()) inputs.tools = to_value(body["tools"], jinja::Origin::kInput, "tools");
  }
  if (body.contains("documents") && !body["documents"].is_null()) {
    inputs.documents = to_value(body["documents"], jinja::Origin::kInput, "documents");
  }
  if (body.contains("chat_template_kwargs") && !body["chat_template_kwargs"].is_null()) {
    const Json& kwargs = body["chat_template_kwargs"];
    if (!kwargs.is_object()) reject("chat_template_kwargs: expected an object, found ", kwargs.type_name());
    for (const auto& [name, value] : kwargs.items()) {
      inputs.kwargs.emplace_back(name, to_value(value, jinja::Origin::kInput, "chat_template_kwargs." + name));
    }
  }
  return result;
}

std::vector<PromptPiece> render(const ChatTemplate& chat_template, const ChatBody& body) {
  std::vector<PromptPiece> pieces = chat_template.render(body.inputs);
  if (body.prefill.empty()) return pieces;
  if (!pieces.empty() && !pieces.back().parse_special) {
    pieces.back().text += body.prefill;
  } else {
    pieces.push_back({body.prefill, false});
  }
  return pieces;
}

}  // namespace loci::server
