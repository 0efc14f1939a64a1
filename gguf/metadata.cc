#include "gguf/metadata.h"

#include <limits>

#include "gguf/printable.h"
#include "kernels/error.h"

namespace loci::gguf {
namespace {

// "string", "array of f32": how a value's type reads in a message.
std::string described(const Value& value) {
  if (value.type != ValueType::kArray) return std::string(name(value.type));
  return str("array of ", name(value.element_type));
}

[[noreturn]] void fail_type(const std::string& file, std::string_view key, std::string_view expected,
                            const Value& found) {
  fail(ErrorKind::kInvalidInput, printable(file, 4096), ": key ", printable(key), ": expected ", expected, ", found ",
       described(found));
}

template <typename T>
std::vector<T> array_or_fail(const std::string& file, std::string_view key, std::string_view expected,
                             const Value& value) {
  if (value.type == ValueType::kArray) {
    if (const auto* items = std::get_if<std::vector<T>>(&value.data)) return *items;
    if (value.array_size() == 0) return {};  // the element type of an empty array says nothing
  }
  fail_type(file, key, expected, value);
}

}  // namespace

std::string_view name(ValueType type) {
  switch (type) {
    case ValueType::kU8:
      return "u8";
    case ValueType::kI8:
      return "i8";
    case ValueType::kU16:
      return "u16";
    case ValueType::kI16:
      return "i16";
    case ValueType::kU32:
      return "u32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kF32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kU64:
      return "u64";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF64:
      return "f64";
  }
  return "unknown type";
}

size_t Value::array_size() const {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&data)) return ints->size();
  if (const auto* floats = std::get_if<std::vector<double>>(&data)) return floats->size();
  if (const auto* strings = std::get_if<std::vector<std::string_view>>(&data)) return strings->size();
  return 0;
}

void Metadata::set(std::string key, Value value) {
  const auto [entry, inserted] = values_.insert_or_assign(key, std::move(value));
  if (inserted) order_.push_back(std::move(key));
}

bool Metadata::has(std::string_view key) const { return values_.find(key) != values_.end(); }

const Value* Metadata::find(std::string_view key) const {
  const auto entry = values_.find(key);
  return entry == values_.end() ? nullptr : &entry->second;
}

std::optional<int64_t> Metadata::find_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&value->data)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value->data)) {
    if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(*number);
    fail(ErrorKind::kInvalidInput, printable(file_, 4096), ": key ", printable(key),
         ": expected an integer below 2^63, found ", *number);
  }
  fail_type(file_, key, "an integer", *value);
}

std::optional<double> Metadata::find_float(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->data)) return *number;
  fail_type(file_, key, "f32 or f64", *value);
}

std::optional<bool> Metadata::find_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->data)) return *flag;
  fail_type(file_, key, "bool", *value);
}

std::optional<std::string> Metadata::find_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&value->data)) return *text;
  fail_type(file_, key, "string", *value);
}

std::optional<std::vector<int64_t>> Metadata::find_ints(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return array_or_fail<int64_t>(file_, key, "array of integers", *value);
}

std::optional<std::vector<double>> Metadata::find_floats(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return array_or_fail<double>(file_, key, "array of f32 or f64", *value);
}

const std::vector<std::string_view>* Metadata::find_strings(std::string_view key) const {
  static const std::vector<std::string_view> kEmpty;
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* strings = std::get_if<std::vector<std::string_view>>(&value->data)) return strings;
  if (value->type == ValueType::kArray && value->array_size() == 0) return &kEmpty;
  fail_type(file_, key, "array of strings", *value);
}

int64_t Metadata::require_int(std::string_view key) const {
  if (const auto number = find_int(key)) return *number;
  fail(ErrorKind::kInvalidInput, printable(file_, 4096), ": key ", printable(key), " is missing: expected an integer");
}

std::string Metadata::require_string(std::string_view key) const {
  if (auto text = find_string(key)) return std::move(*text);
  fail(ErrorKind::kInvalidInput, printable(file_, 4096), ": key ", printable(key), " is missing: expected a string");
}

}  // namespace loci::gguf
