#include "server/structured_output.h"

#include <string_view>
#include <utility>
#include <vector>

#include "engine/constraint/gbnf.h"
#include "engine/constraint/regex.h"
#include "server/json.h"
#include "server/reasoning.h"
#include "server/schema_grammar.h"

namespace loci::server {
namespace {

constexpr size_t kMaxChoices = 10'000;

// Errors of what `make` does, put on the field. What cannot be honoured is the body's fault like what is wrong.
template <typename Make>
Grammar on_field(std::string_view name, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    fail(ErrorKind::kInvalidInput, "Field '", name, "': ", error.what());
  }
}

std::string text_of(const Json& value, std::string_view name) {
  if (!value.is_string()) reject_field(name, "expected a string, found ", excerpt(value));
  return value.get<std::string>();
}

Grammar from_schema(const Json& value, std::string_view name) {
  return on_field(name, [&] {
    return value.is_string() ? schema_text_grammar(value.get_ref<const std::string&>(), "schema")
                             : schema_grammar(value);
  });
}

Grammar from_regex(const Json& value, std::string_view name) {
  return on_field(name, [&] {
    Grammar grammar;
    grammar.set_root(grammar.add_rule("regex", add_regex(grammar, text_of(value, name), RegexUse::kWholeText)));
    grammar.check();
    return grammar;
  });
}

Grammar from_choice(const Json& value, std::string_view name) {
  if (!value.is_array() || value.empty() || value.size() > kMaxChoices) {
    reject_field(name, "expected a list of 1 to ", kMaxChoices, " texts, found ", excerpt(value));
  }
  return on_field(name, [&] {
    Grammar grammar;
    std::vector<Grammar::Node> options;
    for (const Json& text : value) options.push_back(grammar.text(text_of(text, name)));
    grammar.set_root(grammar.add_rule("choice", grammar.choice(std::move(options))));
    grammar.check();
    return grammar;
  });
}

Grammar from_gbnf(const Json& value, std::string_view name) {
  const std::string text = text_of(value, name);
  try {
    return parse_gbnf(text);
  } catch (const Error& error) {  // it names the grammar itself
    const std::string what = error.what();
    fail(ErrorKind::kInvalidInput, "Field '", name, "': ", what.rfind("grammar: ", 0) == 0 ? what.substr(9) : what);
  }
}

std::optional<Grammar> from_response_format(const Json& format) {
  constexpr const char* kName = "response_format";
  if (!format.is_object() || !format.contains("type") || !format["type"].is_string()) {
    reject_field(kName, "expected an object with a string 'type', found ", excerpt(format));
  }
  const auto& type = format["type"].get_ref<const std::string&>();
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    const auto schema = format.find("schema");
    return schema == format.end() || schema->is_null() ? json_object_grammar() : from_schema(*schema, kName);
  }
  if (type != "json_schema") reject_field(kName, "expected type text, json_object or json_schema, found '", type, "'");
  // OpenAI's shape, and the flat one of its Responses API and of llama.cpp.
  const Json* holder = format.contains("json_schema") ? &format["json_schema"] : &format;
  if (!holder->is_object() || !holder->contains("schema")) {
    reject_field(kName, "expected json_schema with a 'schema', found ", excerpt(*holder));
  }
  return from_schema((*holder)["schema"], kName);
}

std::optional<Grammar> from_structured_outputs(const Json& value) {
  constexpr const char* kName = "structured_outputs";
  if (!value.is_object()) reject_field(kName, "expected an object, found ", excerpt(value));
  std::optional<Grammar> grammar;
  for (const auto& [key, item] : value.items()) {
    if (item.is_null() || item == false) continue;
    if (grammar) reject_field(kName, "expected one of json, json_object, regex, choice and grammar, found several");
    const std::string name = std::string(kName) + "." + key;
    if (key == "json") {
      grammar = from_schema(item, name);
    } else if (key == "json_object") {
      grammar = json_object_grammar();
    } else if (key == "regex") {
      grammar = from_regex(item, name);
    } else if (key == "choice") {
      grammar = from_choice(item, name);
    } else if (key == "grammar") {
      grammar = from_gbnf(item, name);
    } else {
      refuse_field(name, "known are json, json_object, regex, choice and grammar");
    }
  }
  return grammar;
}

bool is_blank(const Json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }

}  // namespace

Grammar schema_text_grammar(const std::string& text, const std::string& what) {
  if (static_cast<int64_t>(text.size()) > Grammar::kMaxTextBytes) {
    fail(ErrorKind::kInvalidInput, what, ": expected at most ", Grammar::kMaxTextBytes, " bytes, found ", text.size());
  }
  return schema_grammar(parse_json(text, what));
}

std::optional<Grammar> read_structured_output(const BodyFields& body) {
  std::optional<Grammar> grammar;
  const char* source = nullptr;
  const auto take = [&](const char* name, std::optional<Grammar> found) {
    if (!found) return;
    if (grammar) reject_field(name, "expected one description of the answer's form, found '", source, "' beside it");
    grammar = std::move(found);
    source = name;
  };
  if (const Json* value = body.find("response_format")) take("response_format", from_response_format(*value));
  if (const Json* value = body.find("structured_outputs")) take("structured_outputs", from_structured_outputs(*value));
  const std::pair<const char*, Grammar (*)(const Json&, std::string_view)> fields[] = {
      {"json_schema", from_schema}, {"grammar", from_gbnf},         {"guided_json", from_schema},
      {"guided_regex", from_regex}, {"guided_choice", from_choice}, {"guided_grammar", from_gbnf}};
  for (const auto& [name, make] : fields) {
    const Json* value = body.find(name);
    if (value != nullptr && !is_blank(*value)) take(name, make(*value, name));
  }
  return grammar;
}

ThinkingMarkers thinking_markers(const PromptTokens& prompt, std::string_view template_source) {
  if (!prompt.opens_reasoning.empty()) {
    return {prompt.opens_reasoning, std::string(closing_marker(prompt.opens_reasoning)), true};
  }
  for (const std::string_view marker : reasoning_markers()) {
    if (opened_reasoning(marker) != marker) continue;  // a closing one
    const std::string_view close = closing_marker(marker);
    if (template_source.find(marker) != std::string_view::npos ||
        template_source.find(close) != std::string_view::npos) {
      return {std::string(marker), std::string(close), false};
    }
  }
  return {};
}

}  // namespace loci::server
