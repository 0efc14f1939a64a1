// What the template tests share: data files, JSON to variables.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/text/jinja/template.h"

namespace loci {

using Json = nlohmann::ordered_json;

inline std::filesystem::path shared_dir() {
  const char* given = std::getenv("LOCI_SHARED");
  return given != nullptr ? given : LOCI_SHARED_DEFAULT;
}

inline Json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

inline jinja::Value to_value(const Json& json, jinja::Origin origin = jinja::Origin::kInput) {
  using jinja::Value;
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::number(json.get<double>());
    case Json::value_t::string:
      return Value::string(json.get<std::string>(), origin);
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(to_value(item, origin));
      return Value::sequence(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, value] : json.items())
        items.emplace_back(Value::string(key, origin), to_value(value, origin));
      return Value::dict(std::move(items));
    }
    default:
      return Value::none();
  }
}

// The begin and end tokens are trusted text, all else comes from outside.
inline jinja::Variables to_variables(const Json& object) {
  jinja::Variables variables;
  for (const auto& [name, value] : object.items()) {
    const bool trusted = name == "bos_token" || name == "eos_token";
    variables.emplace_back(name, to_value(value, trusted ? jinja::Origin::kTemplate : jinja::Origin::kInput));
  }
  return variables;
}

inline constexpr const char* kNow = "2025-03-14T09:26:53";

inline std::string render(const std::string& source, const Json& variables = Json::object()) {
  return jinja::Template::parse(source).render(to_variables(variables), kNow).bytes();
}

}  // namespace loci
