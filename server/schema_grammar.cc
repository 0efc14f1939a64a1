#include "server/schema_grammar.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constraint/number_range.h"
#include "engine/constraint/regex.h"
#include "engine/text/unicode.h"
#include "kernels/error.h"
#include "server/body_fields.h"
#include "server/json_grammar.h"
#include "server/schema_merge.h"
#include "server/schema_strings.h"

namespace loci::server {
namespace {

constexpr int kMaxDepth = 64;                // schemas inside each other
constexpr int kMaxWork = 20'000;             // schemas visited, joined ones included
constexpr int kMaxJoins = 1'000;             // of two schemas
constexpr size_t kMaxProperties = 500;       // of one object
constexpr size_t kMaxOptions = 10'000;       // of one enum, anyOf or oneOf
constexpr int64_t kMaxSchemaNodes = 50'000;  // JSON values in the schema
constexpr int kMaxDecimals = 6;

// What each type's own keywords are; a keyword of another type says nothing about a value of this one.
constexpr std::string_view kGeneralKeywords[] = {"type", "enum",  "const", "nullable",
                                                 "$ref", "anyOf", "oneOf", "allOf"};
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                "multipleOf"};
constexpr std::string_view kStringKeywords[] = {"minLength", "maxLength", "pattern", "format"};
constexpr std::string_view kArrayKeywords[] = {"items",    "prefixItems", "additionalItems",
                                               "minItems", "maxItems",    "uniqueItems"};
constexpr std::string_view kObjectKeywords[] = {"properties", "required", "additionalProperties", "minProperties",
                                                "maxProperties"};

template <size_t N>
bool is_in(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// "/" and "~" inside a name, as JSON pointers write them.
std::string pointer_part(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

class Converter {
 public:
  explicit Converter(const Json& root) : root_(root), json_(grammar_) {}

  Grammar convert() {
    if (count_values() > kMaxSchemaNodes) {
      fail(ErrorKind::kInvalidInput, "schema: expected at most ", kMaxSchemaNodes, " values, found more");
    }
    try {
      grammar_.set_root(rule_for("#", root_));
      grammar_.check();
    } catch (const Error& error) {
      const std::string what = error.what();
      if (what.rfind("schema", 0) == 0) throw;
      fail(error.kind(), "schema: ", what);
    }
    return std::move(grammar_);
  }

 private:
  using Node = Grammar::Node;

  int64_t count_values() const {
    int64_t n = 0;
    std::vector<const Json*> todo{&root_};
    while (!todo.empty() && n <= kMaxSchemaNodes) {
      const Json* value = todo.back();
      todo.pop_back();
      ++n;
      if (!value->is_structured()) continue;
      for (const Json& item : *value) todo.push_back(&item);
    }
    return n;
  }

  template <typename... Parts>
  [[noreturn]] static void reject(const std::string& path, Parts&&... parts) {
    fail(ErrorKind::kInvalidInput, "schema ", path, ": ", std::forward<Parts>(parts)...);
  }
  template <typename... Parts>
  [[noreturn]] static void refuse(const std::string& path, Parts&&... parts) {
    fail(ErrorKind::kUnsupported, "schema ", path, ": ", std::forward<Parts>(parts)..., " is not supported");
  }
  void count_work(const std::string& path) {
    if (++n_work_ > kMaxWork) reject(path, "expected at most ", kMaxWork, " schemas with joined ones, found more");
  }

  // The rule of a schema that is referred to, made once.
  Grammar::Rule rule_for(const std::string& path, const Json& schema) {
    const auto known = rules_.find(path);
    if (known != rules_.end()) return known->second;
    const Grammar::Rule rule = grammar_.add_rule(path);
    rules_[path] = rule;
    grammar_.define(rule, node_for(schema, path, 0));
    return rule;
  }

  const Json& target(const Json& schema, const std::string& path, std::string& target_path) const {
    const Json& ref = schema.at("$ref");
    if (!ref.is_string()) reject(path, "'$ref': expected a string, found ", excerpt(ref));
    const auto& uri = ref.get_ref<const std::string&>();
    if (uri.empty() || uri[0] != '#') refuse(path, "'$ref' ", excerpt(ref), ", to another document,");
    if (uri != "#" && (uri.size() < 2 || uri[1] != '/')) refuse(path, "'$ref' ", excerpt(ref), ", by an anchor,");
    const Json* at = &root_;
    target_path = "#";
    for (size_t begin = 2; begin <= uri.size();) {
      const size_t end = std::min(uri.find('/', begin), uri.size());
      const std::string part = decoded(uri.substr(begin, end - begin));
      begin = end + 1;
      const bool is_index =
          !part.empty() && part.size() < 7 && part.find_first_not_of("0123456789") == std::string::npos;
      if (at->is_object() && at->contains(part)) {
        at = &(*at)[part];
      } else if (at->is_array() && is_index && std::stoul(part) < at->size()) {
        at = &(*at)[std::stoul(part)];
      } else {
        reject(path, "'$ref' ", excerpt(ref), ": there is no '", part, "' in ", target_path);
      }
      target_path += "/" + pointer_part(part);
    }
    return *at;
  }

  // One part of a JSON pointer in a URI: percent signs, then ~1 and ~0.
  static std::string decoded(const std::string& part) {
    const auto hex = [](char c) { return std::string("0123456789abcdef").find(static_cast<char>(c | 0x20)); };
    std::string bytes, out;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] == '%' && i + 2 < part.size() && hex(part[i + 1]) < 16 && hex(part[i + 2]) < 16) {
        bytes += static_cast<char>(hex(part[i + 1]) * 16 + hex(part[i + 2]));
        i += 2;
      } else {
        bytes += part[i];
      }
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1')) {
        out += bytes[++i] == '0' ? '~' : '/';
      } else {
        out += bytes[i];
      }
    }
    return out;
  }

  // A schema with its $ref, if any, replaced by what it refers to.
  const Json& resolved(const Json& schema, const std::string& path) {
    const Json* at = &schema;
    std::string where = path;
    for (int n = 0; at->is_object() && at->contains("$ref"); ++n) {
      count_work(path);
      if (n > kMaxDepth) reject(path, "'$ref' leads back to itself");
      at = &target(*at, where, where);
    }
    return *at;
  }

  static Json without(const Json& schema, const char* keyword) {
    Json rest = Json::object();
    for (const auto& [key, value] : schema.items()) {
      if (key != keyword && !is_annotation(key)) rest[key] = value;
    }
    return rest;
  }

  // A schema equal to `schema` without $ref and allOf at its top; those of anyOf and oneOf stay.
  Json flattened(const Json& schema, const std::string& path, int depth) {
    count_work(path);
    if (depth > kMaxDepth) reject(path, "expected schemas at most ", kMaxDepth, " deep, found more");
    if (!schema.is_object()) return schema;
    if (schema.contains("$ref")) {
      std::string where;
      const Json& referred = target(schema, path, where);
      return joined(flattened(referred, where, depth + 1), flattened(without(schema, "$ref"), path, depth + 1), path);
    }
    if (!schema.contains("allOf")) return schema;
    const Json& parts = list_of(schema, "allOf", path);
    Json out = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      out = joined(out, flattened(parts[i], str(path, "/allOf/", i), depth + 1), path);
    }
    return joined(out, flattened(without(schema, "allOf"), path, depth + 1), path);
  }

  Json joined(const Json& a, const Json& b, const std::string& path) {
    if (++n_joins_ > kMaxJoins) reject(path, "expected at most ", kMaxJoins, " schemas to join, found more");
    // Alternatives on both sides multiply; those of one side stay with it.
    for (const Json* side : {&a, &b}) {
      const Json* other = side == &a ? &b : &a;
      for (const char* keyword : {"anyOf", "oneOf"}) {
        if (!side->is_object() || !side->contains(keyword) || !other->is_object()) continue;
        if (other->contains("anyOf") || other->contains("oneOf")) {
          refuse(path, "a combination of two lists of alternatives (anyOf, oneOf)");
        }
      }
    }
    try {
      return merged_schemas(a, b);
    } catch (const Error& error) {
      refuse(path, error.what());
    }
  }

  const Json& list_of(const Json& schema, const char* keyword, const std::string& path) const {
    const Json& list = schema.at(keyword);
    if (!list.is_array() || list.empty()) {
      reject(path, "'", keyword, "': expected a list that is not empty, found ", excerpt(list));
    }
    if (list.size() > kMaxOptions) {
      reject(path, "'", keyword, "': expected at most ", kMaxOptions, " entries, found ", list.size());
    }
    return list;
  }

  Node node_for(const Json& schema, const std::string& path, int depth) {
    count_work(path);
    if (depth > kMaxDepth) reject(path, "expected schemas at most ", kMaxDepth, " deep, found more");
    if (schema == true) return json_.value();
    if (schema == false) reject(path, "no value is valid (false)");
    if (!schema.is_object()) reject(path, "expected a schema (an object, true or false), found ", excerpt(schema));
    check_keywords(schema, path);
    if (schema.contains("$ref") && without(schema, "$ref").empty()) {
      std::string where;
      const Json& referred = target(schema, path, where);
      return grammar_.reference(rule_for(where, referred));
    }
    if (schema.contains("$ref") || schema.contains("allOf")) {
      return node_for(flattened(schema, path, depth), path, depth + 1);
    }
    if (schema.contains("const") || schema.contains("enum")) return listed(schema, path);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (schema.contains(keyword)) return alternatives(schema, keyword, path, depth);
    }
    const std::vector<std::string> types = types_of(schema, path);
    if (types.empty()) return json_.value();
    std::vector<Node> options;
    for (const std::string& type : types) options.push_back(of_type(type, schema, path, depth));
    return grammar_.choice(std::move(options));
  }

  void check_keywords(const Json& schema, const std::string& path) const {
    for (const auto& [keyword, value] : schema.items()) {
      if (is_annotation(keyword) || is_in(kGeneralKeywords, keyword) || is_in(kNumberKeywords, keyword) ||
          is_in(kStringKeywords, keyword) || is_in(kArrayKeywords, keyword) || is_in(kObjectKeywords, keyword)) {
        continue;
      }
      if (keyword == "unevaluatedProperties" && value == false && is_plain(schema)) continue;
      if (keyword == "unevaluatedItems" && value == false && is_plain(schema)) continue;
      refuse(path, "'", keyword, "'");
    }
  }
  // Without schemas beside it that could evaluate members or items.
  static bool is_plain(const Json& schema) {
    return !schema.contains("anyOf") && !schema.contains("oneOf") && !schema.contains("allOf") &&
           !schema.contains("$ref");
  }

  // Types in the order given; inferred from the keywords when none is. Empty: any.
  std::vector<std::string> types_of(const Json& schema, const std::string& path) const {
    static constexpr std::string_view kTypes[] = {"object", "array", "string", "integer", "number", "boolean", "null"};
    std::vector<std::string> types;
    if (const auto type = schema.find("type"); type != schema.end()) {
      const Json list = type->is_array() ? *type : Json::array({*type});
      for (const Json& one : list) {
        if (!one.is_string() || !is_in(kTypes, one.get_ref<const std::string&>())) {
          reject(path, "'type': expected object, array, string, integer, number, boolean or null, found ",
                 excerpt(one));
        }
        types.push_back(one.get<std::string>());
      }
      if (types.empty()) reject(path, "no value is valid: no type is left");
    } else {
      for (const auto& [keyword, value] : schema.items()) {
        const char* type_of_keyword = is_in(kObjectKeywords, keyword)   ? "object"
                                      : is_in(kArrayKeywords, keyword)  ? "array"
                                      : is_in(kStringKeywords, keyword) ? "string"
                                      : is_in(kNumberKeywords, keyword) ? "number"
                                                                        : nullptr;
        if (type_of_keyword == nullptr) continue;
        if (std::find(types.begin(), types.end(), type_of_keyword) == types.end()) types.emplace_back(type_of_keyword);
      }
    }
    if (schema.value("nullable", Json(false)) == true && !types.empty() &&
        std::find(types.begin(), types.end(), "null") == types.end()) {
      types.emplace_back("null");
    }
    return types;
  }

  static bool is_of_type(const Json& value, const std::string& type) {
    if (type == "integer") {
      return value.is_number_integer() || (value.is_number_float() && std::floor(value.get<double>()) == value);
    }
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
           (type == "boolean" && value.is_boolean()) || (type == "null" && value.is_null());
  }

  Node listed(const Json& schema, const std::string& path) {
    for (const auto& [keyword, value] : schema.items()) {
      if (is_annotation(keyword) || keyword == "const" || keyword == "enum" || keyword == "type" ||
          keyword == "nullable") {
        continue;
      }
      refuse(path, "'", keyword, "' beside 'const' or 'enum'");
    }
    std::vector<Json> values;
    if (schema.contains("const")) values.push_back(schema["const"]);
    if (schema.contains("enum")) {
      const Json& list = list_of(schema, "enum", path);
      if (values.empty()) {
        values.assign(list.begin(), list.end());
      } else if (std::find(list.begin(), list.end(), values.front()) == list.end()) {
        reject(path, "no value is valid: 'const' is not in 'enum'");
      }
    }
    if (schema.contains("type")) {
      const std::vector<std::string> types = types_of(schema, path);
      std::erase_if(values, [&](const Json& value) {
        return std::none_of(types.begin(), types.end(), [&](const std::string& t) { return is_of_type(value, t); });
      });
    }
    if (schema.value("nullable", Json(false)) == true) values.emplace_back(nullptr);
    if (values.empty()) reject(path, "no value is valid: none of 'const' or 'enum' has the type");
    std::vector<Node> options;
    for (const Json& value : values) options.push_back(json_.literal(value));
    return grammar_.choice(std::move(options));
  }

  Node alternatives(const Json& schema, const char* keyword, const std::string& path, int depth) {
    const Json& options = list_of(schema, keyword, path);
    const Json rest = without(schema, keyword);
    if (keyword == std::string_view("oneOf")) check_exclusive(options, path);
    std::vector<Node> nodes;
    for (size_t i = 0; i < options.size(); ++i) {
      const std::string where = str(path, "/", keyword, "/", i);
      if (options[i] == false) continue;
      if (rest.empty()) {
        nodes.push_back(node_for(options[i], where, depth + 1));
      } else {
        const Json option = flattened(options[i], where, depth + 1);
        nodes.push_back(node_for(joined(rest, option, where), where, depth + 1));
      }
    }
    if (nodes.empty()) reject(path, "no value is valid under '", keyword, "'");
    return grammar_.choice(std::move(nodes));
  }

  void check_exclusive(const Json& options, const std::string& path) {
    const ResolveSchema resolve = [&](const Json& schema) -> const Json& {
      count_work(path);
      return resolved(schema, path);
    };
    for (size_t i = 0; i < options.size(); ++i) {
      for (size_t k = i + 1; k < options.size(); ++k) {
        if (exclude_each_other(resolve(options[i]), resolve(options[k]), resolve)) continue;
        refuse(path, "'oneOf' whose options ", i, " and ", k,
               " may both hold (they have no different types, constants or required properties; anyOf would do)");
      }
    }
  }

  Node of_type(const std::string& type, const Json& schema, const std::string& path, int depth) {
    if (type == "null") return grammar_.text("null");
    if (type == "boolean") return grammar_.choice({grammar_.text("true"), grammar_.text("false")});
    if (type == "string") return string_node(schema, path);
    if (type == "integer" || type == "number") return number_node(type == "integer", schema, path);
    return type == "array" ? array_node(schema, path, depth) : object_node(schema, path, depth);
  }

  // A count keyword; `otherwise` when absent.
  int64_t count(const Json& schema, const char* keyword, int64_t otherwise, const std::string& path) const {
    const auto it = schema.find(keyword);
    if (it == schema.end()) return otherwise;
    const bool whole = it->is_number() && std::floor(it->get<double>()) == it->get<double>();
    if (!whole || it->get<double>() < 0)
      reject(path, "'", keyword, "': expected a whole number >= 0, found ", excerpt(*it));
    if (it->get<double>() > static_cast<double>(Grammar::kMaxRepeat)) {
      if (std::string_view(keyword).substr(0, 3) == "max") return -1;  // nothing comes near
      refuse(path, "'", keyword, "' above ", Grammar::kMaxRepeat);
    }
    return it->get<int64_t>();
  }
  void check_order(int64_t min, int64_t max, const char* what, const std::string& path) const {
    if (max >= 0 && min > max) reject(path, "no value is valid: min", what, " ", min, " is above max", what, " ", max);
  }

  Node string_node(const Json& schema, const std::string& path) {
    const int64_t min = count(schema, "minLength", 0, path), max = count(schema, "maxLength", -1, path);
    check_order(min, max, "Length", path);
    const auto pattern = schema.find("pattern"), format = schema.find("format");
    const bool has_pattern = pattern != schema.end(), has_format = format != schema.end();
    if (has_pattern && !pattern->is_string()) reject(path, "'pattern': expected a string, found ", excerpt(*pattern));
    if (has_format && !format->is_string()) reject(path, "'format': expected a string, found ", excerpt(*format));
    if (has_pattern && has_format) refuse(path, "'pattern' together with 'format'");
    if ((has_pattern || has_format) && (min > 0 || max >= 0)) {
      refuse(path, "'minLength' or 'maxLength' together with '", has_pattern ? "pattern" : "format", "'");
    }
    if (!has_pattern && !has_format) return json_.string(min, max);
    std::string expression;
    if (has_pattern) {
      expression = pattern->get<std::string>();
    } else {
      expression = format_pattern(format->get<std::string>());
      if (expression.empty()) {
        refuse(path, "'format' ", excerpt(*format), " (known are ", known_formats(), ")");
      }
    }
    try {
      return json_.quoted(add_regex(grammar_, expression, RegexUse::kJsonString));
    } catch (const Error& error) {
      fail(error.kind(), "schema ", path, ": 'pattern' ", excerpt(has_pattern ? *pattern : *format), ": ",
           error.what());
    }
  }

  // A bound times 10^n_decimals, rounded into the range; nullopt when absent.
  std::optional<int64_t> bound(const Json& schema, bool low, int n_decimals, const std::string& path) const {
    std::optional<int64_t> out;
    const double scale = std::pow(10.0, n_decimals);
    for (const bool exclusive : {false, true}) {
      const char* keyword =
          low ? (exclusive ? "exclusiveMinimum" : "minimum") : (exclusive ? "exclusiveMaximum" : "maximum");
      const auto it = schema.find(keyword);
      if (it == schema.end()) continue;
      if (!it->is_number()) reject(path, "'", keyword, "': expected a number, found ", excerpt(*it));
      const double exact = it->get<double>();
      const double limit = static_cast<double>(kMaxRangeValue);
      const double value = exact * scale;
      int64_t whole = 0;
      if (low ? value < -limit : value > limit) {
        whole = low ? -kMaxRangeValue : kMaxRangeValue;
      } else if (low ? value > limit : value < -limit) {
        refuse(path, "'", keyword, "' beyond 15 digits");
      } else {
        // Decimal bounds are scaled exactly: what is within rounding of a whole number is that number.
        const double nearest = std::round(value);
        const bool is_whole = n_decimals == 0 ? nearest == value : nearest / scale == exact;
        whole = static_cast<int64_t>(is_whole ? nearest : low ? std::ceil(value) : std::floor(value));
        if (exclusive && is_whole) whole += low ? 1 : -1;
      }
      out = !out ? whole : low ? std::max(*out, whole) : std::min(*out, whole);
    }
    return out;
  }

  // Digits behind the point that the bounds need.
  int decimals_of(const Json& schema, const std::string& path) const {
    int needed = 0;
    for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const auto it = schema.find(keyword);
      if (it == schema.end() || !it->is_number_float()) continue;
      const double value = it->get<double>();
      int n = 0;
      while (n <= kMaxDecimals && std::abs(value) < 1e15 &&
             std::round(value * std::pow(10.0, n)) / std::pow(10.0, n) != value) {
        ++n;
      }
      if (n > kMaxDecimals) refuse(path, "'", keyword, "' with more than ", kMaxDecimals, " decimals");
      needed = std::max(needed, n);
    }
    return needed;
  }

  Node number_node(bool integer, const Json& schema, const std::string& path) {
    std::optional<int64_t> low = bound(schema, true, 0, path), high = bound(schema, false, 0, path);
    const bool bounded = low || high;
    const int64_t from = low.value_or(-kMaxRangeValue), to = high.value_or(kMaxRangeValue);
    if (const auto divisor = schema.find("multipleOf"); divisor != schema.end()) {
      return multiples_node(*divisor, bounded, from, to, path);
    }
    if (!bounded) return integer ? json_.integer() : json_.number();
    std::vector<Node> options;
    if (from <= to) options.push_back(add_number_range(grammar_, from, to, 0));
    if (!integer) {
      // One digit more finds the numbers between exclusive bounds that lie next to each other.
      const int needed = std::max(2, decimals_of(schema, path));
      for (int n_decimals = needed; n_decimals <= needed + 1; ++n_decimals) {
        const int64_t least = bound(schema, true, n_decimals, path).value_or(-kMaxRangeValue);
        const int64_t most = bound(schema, false, n_decimals, path).value_or(kMaxRangeValue);
        if (least > most) continue;
        options.push_back(add_number_range(grammar_, least, most, n_decimals));
        break;
      }
    }
    if (options.empty()) reject(path, "no value is valid: no number lies between the bounds");
    return grammar_.choice(std::move(options));
  }

  Node multiples_node(const Json& divisor, bool bounded, int64_t from, int64_t to, const std::string& path) {
    constexpr int64_t kMaxListed = 2'000;
    const bool whole = divisor.is_number() && std::floor(divisor.get<double>()) == divisor.get<double>();
    if (!divisor.is_number() || divisor.get<double>() <= 0) {
      reject(path, "'multipleOf': expected a number > 0, found ", excerpt(divisor));
    }
    if (!whole || divisor.get<double>() > 1e9) refuse(path, "'multipleOf' ", excerpt(divisor));
    const auto step = static_cast<int64_t>(divisor.get<double>());
    if (!bounded) {
      if (step > kMaxDivisor) refuse(path, "'multipleOf' above ", kMaxDivisor, " without bounds");
      return add_multiples(grammar_, step);
    }
    const int64_t first = from / step * step + (from > 0 && from % step != 0 ? step : 0);
    if (first > to) reject(path, "no value is valid: no multiple lies between the bounds");
    if ((to - first) / step >= kMaxListed)
      refuse(path, "'multipleOf' between bounds that hold more than ", kMaxListed, " multiples");
    std::vector<Node> options;
    for (int64_t value = first; value <= to; value += step) options.push_back(grammar_.text(std::to_string(value)));
    return grammar_.choice(std::move(options));
  }

  Node array_node(const Json& schema, const std::string& path, int depth) {
    const int64_t min = count(schema, "minItems", 0, path), max = count(schema, "maxItems", -1, path);
    check_order(min, max, "Items", path);
    if (schema.value("uniqueItems", Json(false)) == true && !(max >= 0 && max <= 1)) refuse(path, "'uniqueItems'");
    // Drafts before 2020 wrote prefixItems as a list under items, and items as additionalItems.
    const bool old_prefix = schema.contains("items") && schema["items"].is_array();
    const char* prefix_name = old_prefix ? "items" : "prefixItems";
    const char* items_name = old_prefix ? "additionalItems" : "items";
    std::vector<Node> prefix;
    if (schema.contains(prefix_name)) {
      const Json& list = schema[prefix_name];
      if (!list.is_array()) reject(path, "'", prefix_name, "': expected a list, found ", excerpt(list));
      for (size_t i = 0; i < list.size() && (max < 0 || static_cast<int64_t>(i) < max); ++i) {
        const Node item = node_for(list[i], str(path, "/", prefix_name, "/", i), depth + 1);
        prefix.push_back(prefix.empty() ? item : json_.next(item));
      }
    }
    const auto n_prefix = static_cast<int64_t>(prefix.size());
    const auto items = schema.find(items_name);
    const bool closed = items != schema.end() ? *items == false : schema.contains(prefix_name) && min <= n_prefix;
    const int64_t most = max < 0 ? -1 : max - n_prefix;
    if (closed && min > n_prefix) {
      reject(path, "no value is valid: minItems ", min, " is above the ", n_prefix, " items there may be");
    }
    if (closed || most == 0) return json_.bracketed("[", grammar_.sequence(std::move(prefix)), "]");
    const Json any = true;
    const Grammar::Rule rule = grammar_.add_rule(str(path, "/", items_name));
    grammar_.define(rule, node_for(items != schema.end() ? *items : any, str(path, "/", items_name), depth + 1));
    const Node item = grammar_.reference(rule);
    const int64_t least = std::max<int64_t>(0, min - n_prefix);
    if (n_prefix > 0) {
      prefix.push_back(grammar_.repeat(json_.next(item), least, most));
      return json_.bracketed("[", grammar_.sequence(std::move(prefix)), "]");
    }
    const Node tail = grammar_.repeat(json_.next(item), std::max<int64_t>(0, least - 1), most < 0 ? -1 : most - 1);
    const Node all = grammar_.sequence({item, tail});
    return json_.bracketed("[", least == 0 ? grammar_.optional(all) : all, "]");
  }

  struct Property {
    std::string name;
    Node member;
    bool required;
  };

  Node object_node(const Json& schema, const std::string& path, int depth) {
    const Json none = Json::object();
    const Json& own = schema.contains("properties") ? schema["properties"] : none;
    if (!own.is_object()) reject(path, "'properties': expected an object, found ", excerpt(own));
    if (own.size() > kMaxProperties) {
      reject(path, "'properties': expected at most ", kMaxProperties, ", found ", own.size());
    }
    const std::vector<std::string> required = required_names(schema, path);
    const auto is_required = [&](const std::string& name) {
      return std::find(required.begin(), required.end(), name) != required.end();
    };
    // No word on further members: with properties listed there are none, else they are free.
    const bool says = schema.contains("additionalProperties");
    const bool closed =
        says ? schema["additionalProperties"] == false : !own.empty() || schema.contains("unevaluatedProperties");
    const Json any = true;
    const Json& more = says ? schema["additionalProperties"] : any;
    std::vector<Property> properties;
    std::vector<std::string> names;
    for (const auto& [name, value] : own.items()) {
      names.push_back(name);
      if (value == false) {
        if (is_required(name)) reject(path, "no value is valid: '", name, "' is required and false");
        continue;
      }
      properties.push_back(
          {name, member(name, value, path + "/properties/" + pointer_part(name), depth), is_required(name)});
    }
    for (const std::string& name : required) {
      if (own.contains(name)) continue;
      if (says && closed) reject(path, "no value is valid: '", name, "' is required and not among the properties");
      names.push_back(name);
      properties.push_back({name, member(name, more, path + "/additionalProperties", depth), true});
    }
    const int64_t min = count(schema, "minProperties", 0, path), max = count(schema, "maxProperties", -1, path);
    check_order(min, max, "Properties", path);
    if (closed) return json_.bracketed("{", members(properties, min, max, path), "}");
    return open_object(properties, names, more, min, max, path, depth);
  }

  Node member(const std::string& name, const Json& schema, const std::string& path, int depth) {
    const Grammar::Rule rule = grammar_.add_rule(path);
    grammar_.define(rule, json_.member(json_.quoted(json_text(grammar_, name)), node_for(schema, path, depth + 1)));
    return grammar_.reference(rule);
  }

  std::vector<std::string> required_names(const Json& schema, const std::string& path) const {
    std::vector<std::string> names;
    const auto it = schema.find("required");
    if (it == schema.end()) return names;
    if (!it->is_array()) reject(path, "'required': expected a list of names, found ", excerpt(*it));
    for (const Json& name : *it) {
      if (!name.is_string()) reject(path, "'required': expected names, found ", excerpt(name));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name.get<std::string>());
    }
    if (names.size() > kMaxProperties) {
      reject(path, "'required': expected at most ", kMaxProperties, " names, found ", names.size());
    }
    return names;
  }

  // Members in the order of the schema, from `min` to `max` of them.
  Node members(const std::vector<Property>& properties, int64_t min, int64_t max, const std::string& path) {
    const auto n = static_cast<int64_t>(properties.size());
    const auto n_required =
        std::count_if(properties.begin(), properties.end(), [](const Property& p) { return p.required; });
    if (min > n) reject(path, "no value is valid: minProperties ", min, " is above the ", n, " properties");
    if (max >= 0 && n_required > max) {
      reject(path, "no value is valid: ", n_required, " properties are required, maxProperties is ", max);
    }
    // rest[c]: the members from the i-th on, when c stand before them already; c counts no further than matters.
    // nullopt: none would do. Filled from the last property to the first.
    const int64_t top = max >= 0 && max < n ? max + 1 : std::max<int64_t>(1, min);
    std::vector<std::optional<Node>> rest(static_cast<size_t>(top) + 1);
    for (int64_t c = 0; c <= top; ++c) {
      if (c >= min && (max < 0 || max >= n || c <= max)) rest[static_cast<size_t>(c)] = grammar_.empty();
    }
    for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
      std::vector<std::optional<Node>> before(rest.size());
      for (int64_t c = 0; c <= top; ++c) {
        std::vector<Node> options;
        if (const auto& after = rest[static_cast<size_t>(std::min(c + 1, top))]) {
          options.push_back(grammar_.sequence({c == 0 ? property->member : json_.next(property->member), *after}));
        }
        if (const auto& skipped = rest[static_cast<size_t>(c)]; skipped && !property->required) {
          options.push_back(*skipped);
        }
        if (options.empty()) continue;
        const Grammar::Rule rule = grammar_.add_rule(path, grammar_.choice(std::move(options)));
        before[static_cast<size_t>(c)] = grammar_.reference(rule);
      }
      rest = std::move(before);
    }
    if (!rest[0]) reject(path, "no value is valid: minProperties and maxProperties cannot be met");
    return *rest[0];
  }

  Node open_object(std::vector<Property>& properties, const std::vector<std::string>& names, const Json& more,
                   int64_t min, int64_t max, const std::string& path, int depth) {
    // A key may come twice and counts once then, so that free members help to reach a minimum of one alone.
    const auto n_required =
        std::count_if(properties.begin(), properties.end(), [](const Property& p) { return p.required; });
    if (min > std::max<int64_t>(1, n_required))
      refuse(path, "'minProperties' above ", std::max<int64_t>(1, n_required), " here");
    if (max >= 0 && max < n_required) {
      reject(path, "no value is valid: ", n_required, " properties are required, maxProperties is ", max);
    }
    if (max >= 0 && static_cast<int64_t>(properties.size()) > n_required) {
      refuse(path, "'maxProperties' beside optional and additional properties");
    }
    const Grammar::Rule value_rule = grammar_.add_rule(path + "/additionalProperties");
    grammar_.define(value_rule, node_for(more, path + "/additionalProperties", depth + 1));
    const Grammar::Rule free_rule = grammar_.add_rule(
        path + "/additionalProperties", json_.member(json_.other_key(names), grammar_.reference(value_rule)));
    const Node free = grammar_.reference(free_rule);
    const int64_t most = max < 0 ? -1 : max - n_required;
    const auto free_members = [&](bool some_before, bool some_needed) {
      if (most == 0) return grammar_.empty();
      if (some_before) return grammar_.repeat(json_.next(free), 0, most);
      const Node all = grammar_.sequence({free, grammar_.repeat(json_.next(free), 0, most < 0 ? -1 : most - 1)});
      return some_needed ? all : grammar_.optional(all);
    };
    if (properties.empty()) return json_.bracketed("{", free_members(false, min > 0), "}");
    // Listed members first, then free ones.
    const Node with_listed = grammar_.sequence({members(properties, 1, -1, path), free_members(true, false)});
    if (n_required > 0) return json_.bracketed("{", with_listed, "}");
    return json_.bracketed("{", grammar_.choice({with_listed, free_members(false, min > 0)}), "}");
  }

  const Json& root_;
  Grammar grammar_;
  JsonGrammar json_;
  std::map<std::string, Grammar::Rule> rules_;  // of schemas that are referred to, by path
  int n_work_ = 0, n_joins_ = 0;
};

}  // namespace

Grammar schema_grammar(const Json& schema) { return Converter(schema).convert(); }

Grammar json_object_grammar() {
  Grammar grammar;
  JsonGrammar json(grammar);
  grammar.set_root(grammar.add_rule("answer", json.object()));
  grammar.check();
  return grammar;
}

}  // namespace loci::server
