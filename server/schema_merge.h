// allOf and its like: one schema in place of two, and whether two schemas exclude each other (oneOf).
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace loci::server {

// Whether a keyword says nothing about which values are valid: title, description, default, ...
bool is_annotation(const std::string& keyword);

// A schema that is valid where both are. Both are objects without $ref, anyOf, oneOf, allOf; true and {} are
// neutral. Throws Error(kUnsupported) naming the keyword that both set and that cannot be joined.
nlohmann::ordered_json merged_schemas(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

// Whether it can be shown that no value is valid under both. `resolve` follows a $ref, once.
using ResolveSchema = std::function<const nlohmann::ordered_json&(const nlohmann::ordered_json&)>;
bool exclude_each_other(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b, const ResolveSchema& resolve,
                        int depth = 0);

}  // namespace loci::server
