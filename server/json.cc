#include "server/json.h"

#include "kernels/error.h"

namespace loci::server {
namespace {

using jinja::Value;
using Json = nlohmann::ordered_json;

Value convert(const Json& json, jinja::Origin origin, uint32_t depth) {
  if (depth > jinja::kMaxDepth) throw jinja::RenderError(str("nested more than ", jinja::kMaxDepth, " levels deep"));
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw jinja::RenderError(str("expected integers below 2^63, found ", json.get<uint64_t>()));
      }
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::number(json.get<double>());
    case Json::value_t::string:
      return Value::string(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item, origin, depth + 1));
      return Value::sequence(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        items.emplace_back(Value::string(key, origin), convert(value, origin, depth + 1));
      }
      return Value::dict(std::move(items));
    }
    default:
      return Value::none();
  }
}

}  // namespace

Value to_value(const Json& json, jinja::Origin origin, const std::string& what) {
  try {
    return convert(json, origin, 0);
  } catch (const jinja::RenderError& error) {
    fail(ErrorKind::kInvalidInput, what, ": ", error.what());
  }
}

Json parse_json(const std::string& text, const std::string& what) {
  // Much in a JSON library recurses over the nesting: it is bounded here, before anything is built.
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > static_cast<int>(jinja::kMaxDepth)) {
      fail(ErrorKind::kInvalidInput, what, ": nested more than ", jinja::kMaxDepth, " levels deep");
    }
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& error) {  // of syntax, or of numbers beyond any type
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string message = error.what();
    const size_t end = message.find("] ");
    fail(ErrorKind::kInvalidInput, what,
         ": expected JSON: ", end == std::string::npos ? message : message.substr(end + 2));
  }
}

jinja::Variables to_variables(const std::string& json_object, const std::string& what) {
  jinja::Variables variables;
  if (json_object.empty()) return variables;
  const Json json = parse_json(json_object, what);
  if (!json.is_object()) fail(ErrorKind::kInvalidInput, what, ": expected a JSON object, found ", json.type_name());
  for (const auto& [key, value] : json.items()) {
    variables.emplace_back(key, to_value(value, jinja::Origin::kInput, what + "." + key));
  }
  return variables;
}

}  // namespace loci::server
