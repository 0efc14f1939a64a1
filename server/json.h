// JSON to template values. The engine knows no JSON; its callers convert here.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/text/jinja/template.h"

namespace loci::server {

// Objects keep the order of their keys. Strings, keys included, get `origin`. Throws Error(kInvalidInput) for
// integers beyond 64 bits and for nesting or size beyond what templates may hold; `what` names the value.
jinja::Value to_value(const nlohmann::ordered_json& json, jinja::Origin origin, const std::string& what);

// Parses text. Throws Error(kInvalidInput) "what: ..., line 3, column 7: ..." when it is no JSON or nested too deeply.
nlohmann::ordered_json parse_json(const std::string& text, const std::string& what);

// A JSON object as variables, "" as none: --chat-template-kwargs.
jinja::Variables to_variables(const std::string& json_object, const std::string& what);

}  // namespace loci::server
