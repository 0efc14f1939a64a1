#include "server/schema_merge.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "kernels/error.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAnnotations[] = {
    "title",         "description", "default",         "examples",         "example",       "deprecated",
    "readOnly",      "writeOnly",   "$comment",        "$schema",          "$id",           "$defs",
    "discriminator", "definitions", "contentEncoding", "contentMediaType", "contentSchema", "externalDocs"};

bool is_neutral(const Json& schema) { return schema == true || (schema.is_object() && schema.empty()); }

// Types as a set; empty: not said.
std::set<std::string> type_set(const Json& schema) {
  std::set<std::string> types;
  const auto type = schema.find("type");
  if (type == schema.end()) return types;
  if (type->is_string()) types.insert(type->get<std::string>());
  if (type->is_array()) {
    for (const Json& one : *type) {
      if (one.is_string()) types.insert(one.get<std::string>());
    }
  }
  if (schema.value("nullable", Json(false)) == true) types.insert("null");
  return types;
}

Json joined_types(const Json& a, const Json& b) {
  const auto list = [](const Json& type) { return type.is_array() ? type : Json::array({type}); };
  const auto has = [&](const Json& types, const char* name) {
    return std::find(types.begin(), types.end(), name) != types.end();
  };
  const Json left = list(a), right = list(b);
  Json both = Json::array();
  for (const Json& type : left) {
    if (std::find(right.begin(), right.end(), type) != right.end()) {
      both.push_back(type);
    } else if ((type == "integer" && has(right, "number"))) {
      both.push_back("integer");
    }
  }
  if (has(right, "integer") && has(left, "number") && !has(both, "integer")) both.push_back("integer");
  return both;
}

// Schema of a property of an object: its own, or that of additional properties; nullopt: anything.
std::optional<Json> property_schema(const Json& schema, const std::string& name) {
  if (const auto own = schema.find("properties"); own != schema.end() && own->is_object() && own->contains(name)) {
    return (*own)[name];
  }
  if (const auto more = schema.find("additionalProperties"); more != schema.end()) return *more;
  return std::nullopt;
}

Json both_of(const Json& a, const Json& b) {
  if (a == b || is_neutral(b)) return a;
  if (is_neutral(a)) return b;
  if (a == false || b == false) return false;
  return Json{{"allOf", Json::array({a, b})}};
}

Json joined_properties(const Json& a, const Json& b) {
  Json properties = Json::object();
  const auto add = [&](const std::string& name) {
    if (properties.contains(name)) return;
    const std::optional<Json> left = property_schema(a, name), right = property_schema(b, name);
    properties[name] = both_of(left.value_or(true), right.value_or(true));
  };
  for (const Json* schema : {&a, &b}) {
    if (const auto own = schema->find("properties"); own != schema->end() && own->is_object()) {
      for (const auto& [name, value] : own->items()) add(name);
    }
  }
  return properties;
}

const Json* find(const Json& schema, const char* keyword) {
  const auto it = schema.find(keyword);
  return it == schema.end() ? nullptr : &*it;
}

// The values that a schema lists, when it does.
std::optional<std::vector<Json>> listed_values(const Json& schema) {
  if (const Json* value = find(schema, "const")) return std::vector<Json>{*value};
  if (const Json* values = find(schema, "enum"); values != nullptr && values->is_array()) {
    return std::vector<Json>(values->begin(), values->end());
  }
  return std::nullopt;
}

std::string type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return "number";
}

std::set<std::string> possible_types(const Json& schema) {
  std::set<std::string> types = type_set(schema);
  if (const auto values = listed_values(schema)) {
    types.clear();
    for (const Json& value : *values) types.insert(type_of(value));
  }
  if (types.erase("integer") > 0) types.insert("number");
  return types;
}

// Whether an object under `a` has a property that none under `b` has, or with other values.
bool a_property_tells(const Json& a, const Json& b, const ResolveSchema& resolve, int depth) {
  const Json* required = find(a, "required");
  if (required == nullptr || !required->is_array()) return false;
  for (const Json& name : *required) {
    if (!name.is_string()) continue;
    const auto& key = name.get_ref<const std::string&>();
    const std::optional<Json> in_a = property_schema(a, key), in_b = property_schema(b, key);
    if (in_b && *in_b == false) return true;
    if (in_a && in_b && in_a->is_object() && in_b->is_object() &&
        exclude_each_other(resolve(*in_a), resolve(*in_b), resolve, depth + 1)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  return std::find(std::begin(kAnnotations), std::end(kAnnotations), keyword) != std::end(kAnnotations) ||
         keyword.rfind("x-", 0) == 0;
}

Json merged_schemas(const Json& a, const Json& b) {
  if (is_neutral(b)) return a;
  if (is_neutral(a)) return b;
  if (a == false || b == false) return false;
  Json out = a;
  for (const auto& [keyword, value] : b.items()) {
    if (is_annotation(keyword)) continue;
    const Json* mine = find(a, keyword.c_str());
    if (keyword == "properties" || keyword == "additionalProperties") continue;  // below
    if (mine == nullptr || *mine == value) {
      out[keyword] = value;
    } else if (keyword == "type") {
      out[keyword] = joined_types(*mine, value);
    } else if (keyword == "required" && mine->is_array() && value.is_array()) {
      for (const Json& name : value) {
        if (std::find(mine->begin(), mine->end(), name) == mine->end()) out[keyword].push_back(name);
      }
    } else if (keyword == "enum" && mine->is_array() && value.is_array()) {
      Json both = Json::array();
      for (const Json& item : *mine) {
        if (std::find(value.begin(), value.end(), item) != value.end()) both.push_back(item);
      }
      out[keyword] = both;
    } else if (mine->is_number() && value.is_number() &&
               (keyword.rfind("min", 0) == 0 || keyword == "exclusiveMinimum")) {
      out[keyword] = std::max(*mine, value);
    } else if (mine->is_number() && value.is_number() &&
               (keyword.rfind("max", 0) == 0 || keyword == "exclusiveMaximum")) {
      out[keyword] = std::min(*mine, value);
    } else if (keyword == "items") {
      out[keyword] = both_of(*mine, value);
    } else {
      fail(ErrorKind::kUnsupported, "two values of '", keyword, "' that must both hold");
    }
  }
  const Json* more_a = find(a, "additionalProperties");
  const Json* more_b = find(b, "additionalProperties");
  if (find(a, "properties") != nullptr || find(b, "properties") != nullptr) {
    out["properties"] = joined_properties(a, b);
  }
  if (more_a != nullptr || more_b != nullptr) {
    out["additionalProperties"] =
        both_of(more_a == nullptr ? Json(true) : *more_a, more_b == nullptr ? Json(true) : *more_b);
  }
  return out;
}

bool exclude_each_other(const Json& a, const Json& b, const ResolveSchema& resolve, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth || !a.is_object() || !b.is_object()) return a == false || b == false;
  for (const char* keyword : {"anyOf", "oneOf"}) {
    for (const auto& [one, opposite] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      const Json* other = opposite;  // a lambda cannot take the binding itself
      const Json* options = find(*one, keyword);
      if (options == nullptr || !options->is_array() || options->empty()) continue;
      return std::all_of(options->begin(), options->end(), [&](const Json& option) {
        return exclude_each_other(resolve(option), *other, resolve, depth + 1);
      });
    }
  }
  const std::set<std::string> types_a = possible_types(a), types_b = possible_types(b);
  std::vector<std::string> common;
  std::set_intersection(types_a.begin(), types_a.end(), types_b.begin(), types_b.end(), std::back_inserter(common));
  if (types_a.empty() || types_b.empty()) return false;
  if (common.empty()) return true;
  const auto values_a = listed_values(a), values_b = listed_values(b);
  if (values_a && values_b) {
    return std::none_of(values_a->begin(), values_a->end(), [&](const Json& value) {
      return std::find(values_b->begin(), values_b->end(), value) != values_b->end();
    });
  }
  if (common == std::vector<std::string>{"object"}) {
    return a_property_tells(a, b, resolve, depth) || a_property_tells(b, a, resolve, depth);
  }
  return false;
}

}  // namespace loci::server
