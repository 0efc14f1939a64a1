#include "engine/text/chat_template.h"

#include <algorithm>

#include "engine/text/builtin_templates.h"
#include "kernels/error.h"

namespace loci {
namespace {

using jinja::Origin;
using jinja::Value;
using Pairs = std::vector<std::pair<Value, Value>>;

Value input(const std::string& text) { return Value::string(text, Origin::kInput); }

// Roles that templates know by name. Any other role is text from outside as everything else is.
Value role_value(const std::string& role) {
  static constexpr std::string_view kKnown[] = {"system",      "user",          "assistant", "tool",
                                                "developer",   "function",      "model",     "ipython",
                                                "observation", "tool_response", "documents"};
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), role) != std::end(kKnown);
  return Value::string(role, known ? Origin::kTemplate : Origin::kInput);
}

Value to_value(const ChatMessage& message) {
  Pairs fields;
  fields.emplace_back(Value::string("role"), role_value(message.role));
  fields.emplace_back(Value::string("content"), input(message.content));
  if (!message.reasoning_content.empty()) {
    fields.emplace_back(Value::string("reasoning_content"), input(message.reasoning_content));
  }
  return Value::dict(std::move(fields));
}

// The messages with their roles marked as role_value() does.
Value with_known_roles(const Value& messages) {
  if (!messages.is_list()) fail(ErrorKind::kInvalidInput, "messages: expected a list, found ", type_name(messages));
  std::vector<Value> marked;
  for (const Value& message : messages.items()) {
    if (!message.is_dict()) {
      fail(ErrorKind::kInvalidInput, "messages[", marked.size(), "]: expected an object, found ", type_name(message));
    }
    Pairs fields;
    for (const auto& [key, value] : message.as_dict().items) {
      const bool is_role = key.is_string() && key.view() == "role" && value.is_string();
      fields.emplace_back(key, is_role ? role_value(value.text().bytes()) : value);
    }
    marked.push_back(Value::dict(std::move(fields)));
  }
  return Value::sequence(std::move(marked));
}

std::vector<PromptPiece> to_pieces(const jinja::Text& text) {
  std::vector<PromptPiece> pieces;
  text.for_each_run([&](std::string_view run, Origin origin) {
    pieces.push_back({std::string(run), origin == Origin::kTemplate});
  });
  return pieces;
}

Value dict(std::initializer_list<std::pair<const char*, Value>> fields) {
  Pairs pairs;
  for (const auto& [name, value] : fields) pairs.emplace_back(Value::string(name), value);
  return Value::dict(std::move(pairs));
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<jinja::Template> parsed, std::string source)
    : parsed_(std::move(parsed)), source_(std::move(source)) {
  probe();
}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::from_source(const std::string& jinja_source) {
  auto parsed = std::make_unique<jinja::Template>(jinja::Template::parse(jinja_source));
  return ChatTemplate(std::move(parsed), jinja_source);
}

ChatTemplate ChatTemplate::builtin(const std::string& name) {
  const char* source = builtin_template(name);
  if (source == nullptr) {
    std::string names;
    for (const std::string& known : builtin_names()) names += (names.empty() ? "" : ", ") + known;
    fail(ErrorKind::kNotFound, "chat template '", name, "': no built-in of that name; known: ", names);
  }
  return from_source(source);
}

std::vector<std::string> ChatTemplate::builtin_names() { return builtin_template_names(); }

const std::string& ChatTemplate::source() const { return source_; }

std::vector<PromptPiece> ChatTemplate::render(const jinja::Variables& variables, const std::string& now) const {
  return to_pieces(parsed_->render(variables, now));
}

std::vector<PromptPiece> ChatTemplate::render(const ChatTemplateInputs& inputs) const {
  Value messages;
  try {
    if (inputs.messages_value) {
      messages = with_known_roles(*inputs.messages_value);
    } else {
      std::vector<Value> list;
      for (const ChatMessage& message : inputs.messages) list.push_back(to_value(message));
      messages = Value::sequence(std::move(list));
    }
  } catch (const jinja::RenderError& error) {
    fail(ErrorKind::kInvalidInput, "messages: ", error.what());
  }
  const auto or_none = [](const Value& v) { return v.is_undefined() ? Value::none() : v; };
  jinja::Variables variables;
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("tools", or_none(inputs.tools));
  variables.emplace_back("documents", or_none(inputs.documents));
  variables.emplace_back("add_generation_prompt", Value::boolean(inputs.add_generation_prompt));
  variables.emplace_back("bos_token", Value::string(inputs.bos_token));
  variables.emplace_back("eos_token", Value::string(inputs.eos_token));
  if (inputs.enable_thinking) variables.emplace_back("enable_thinking", Value::boolean(*inputs.enable_thinking));
  for (const auto& [name, value] : inputs.kwargs) variables.emplace_back(name, value);
  if (!inputs.tools.is_undefined() && !inputs.tools.is_none()) return render(variables, inputs.now);
  try {
    return render(variables, inputs.now);
  } catch (const Error&) {
    // Some templates made for tool use walk over `tools` without asking; an empty list suits them.
    jinja::Variables with_list = variables;
    with_list.emplace(with_list.begin() + 2, "tools", Value::sequence({}));
    try {
      return render(with_list, inputs.now);
    } catch (const Error&) {
    }
    throw;
  }
}

void ChatTemplate::probe() {
  const auto outcome = [&](const Value& content, const std::optional<Value>& arguments) -> std::string {
    std::vector<Value> messages;
    messages.push_back(dict({{"role", Value::string("user")}, {"content", content}}));
    if (arguments) {
      const Value function = dict({{"name", Value::string("probe_tool")}, {"arguments", *arguments}});
      const Value call =
          dict({{"id", Value::string("call00001")}, {"type", Value::string("function")}, {"function", function}});
      messages.push_back(dict({{"role", Value::string("assistant")},
                               {"content", Value::string("")},
                               {"tool_calls", Value::sequence({call})}}));
    }
    ChatTemplateInputs inputs;
    inputs.messages_value = Value::sequence(std::move(messages));
    inputs.add_generation_prompt = !arguments;
    inputs.now = "2000-01-01T00:00:00";
    try {
      return join(render(inputs));
    } catch (const Error&) {
      return "";
    }
  };
  const auto holds = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const Value plain = Value::string("probe_text");
  const Value parts = Value::sequence({dict({{"type", Value::string("text")}, {"text", plain}})});
  wants_content_parts_ =
      !holds(outcome(plain, std::nullopt), "probe_text") && holds(outcome(parts, std::nullopt), "probe_text");
  const Value& content = wants_content_parts_ ? parts : plain;
  const std::string from_string = outcome(content, Value::string("{\"probe_key\": \"probe_value\"}"));
  if (holds(from_string, "\"probe_key\": \"probe_value\"")) return;  // printed as it is
  const std::string from_object = outcome(content, dict({{"probe_key", Value::string("probe_value")}}));
  wants_object_arguments_ = holds(from_object, "probe_value") && !holds(from_object, "'probe_key'");
}

std::string join(const std::vector<PromptPiece>& pieces) {
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace loci
