#include "server/body_fields.h"

#include <cmath>

namespace loci::server {

std::string excerpt(const Json& value) {
  constexpr size_t kMaxBytes = 80;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMaxBytes) return text;
  size_t n = kMaxBytes;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return text.substr(0, n) + "...";
}

BodyFields::BodyFields(const Json& body) : body_(&body) {
  if (!body.is_object()) fail(ErrorKind::kInvalidInput, "expected a JSON object, found ", body.type_name());
}

const Json* BodyFields::find(std::string_view name) const {
  const auto it = body_->find(std::string(name));
  return it == body_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> BodyFields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) reject_field(name, "expected true or false, found ", excerpt(*value));
  return value->get<bool>();
}

std::optional<int64_t> BodyFields::integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value->is_number_float() && std::abs(value->get<double>()) <= kExact &&
      std::floor(value->get<double>()) == value->get<double>()) {
    return static_cast<int64_t>(value->get<double>());
  }
  if (!value->is_number_integer()) reject_field(name, "expected a whole number, found ", excerpt(*value));
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    reject_field(name, "expected a number below 2^63, found ", excerpt(*value));
  }
  return value->get<int64_t>();
}

std::optional<int64_t> BodyFields::integer(std::string_view name, int64_t low, int64_t high) const {
  const std::optional<int64_t> value = integer(name);
  if (value && (*value < low || *value > high)) {
    reject_field(name, "expected a whole number from ", low, " to ", high, ", found ", *value);
  }
  return value;
}

std::optional<double> BodyFields::number(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) reject_field(name, "expected a number, found ", excerpt(*value));
  return value->get<double>();
}

std::optional<std::string> BodyFields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) reject_field(name, "expected a string, found ", excerpt(*value));
  return value->get<std::string>();
}

const Json* BodyFields::list(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) reject_field(name, "expected a list, found ", excerpt(*value));
  return value;
}

}  // namespace loci::server
