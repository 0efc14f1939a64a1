#include "server/tools/tool_set.h"

#include <algorithm>

#include "server/tools/cursor.h"
#include "server/tools/literal.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool all_are_strings(const Json* list) {
  return list != nullptr && list->is_array() && !list->empty() &&
         std::all_of(list->begin(), list->end(), [](const Json& item) { return item.is_string(); });
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json* function = member(tool, "function");
    if (function == nullptr) function = &tool;
    const Json* name = member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    Parameters& parameters = tools_[name->get<std::string>()];
    const Json* schema = member(*function, "parameters");
    if (schema == nullptr) schema = member(*function, "input_schema");
    const Json* properties = schema == nullptr ? nullptr : member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, property] : properties->items()) {
      const Json* type = member(property, "type");
      if (type == nullptr) {
        if (all_are_strings(member(property, "enum"))) parameters[key] = Type::kText;
      } else if (*type == "string") {
        parameters[key] = Type::kText;
      } else if (type->is_array() && std::count(type->begin(), type->end(), "string") > 0) {
        const bool has_null = std::count(type->begin(), type->end(), "null") > 0;
        if (type->size() == (has_null ? 2u : 1u)) parameters[key] = has_null ? Type::kTextOrNull : Type::kText;
      }
    }
  }
}

bool ToolSet::wants_text(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return false;
  const auto type = found->second.find(parameter);
  return type != found->second.end() && type->second == Type::kText;
}

std::string ToolSet::argument_text(std::string_view tool, std::string_view parameter, std::string_view value) const {
  const auto found = tools_.find(tool);
  if (found != tools_.end()) {
    const auto type = found->second.find(parameter);
    if (type != found->second.end()) {
      const std::string_view word = trimmed(value);
      if (type->second == Type::kTextOrNull && (word == "null" || word == "None")) return "null";
      return json_string(value);
    }
  }
  const std::optional<std::string> text = json_text_of_value(value);
  return text ? *text : json_string(value);
}

}  // namespace loci::server
