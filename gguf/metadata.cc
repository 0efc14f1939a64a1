#include "gguf/metadata.h"

#include <cstring>
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

template <typename Stored, typename T>
void decode(const ArrayBytes& array, std::vector<T>& items) {
  items.resize(array.count);
  for (size_t i = 0; i < array.count; ++i) {
    Stored item;
    std::memcpy(&item, array.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    items[i] = static_cast<T>(item);
  }
}

bool decode_ints(ValueType type, const ArrayBytes& array, std::vector<int64_t>& items) {
  switch (type) {
    case ValueType::kU8:
      decode<uint8_t>(array, items);
      return true;
    case ValueType::kI8:
      decode<int8_t>(array, items);
      return true;
    case ValueType::kU16:
      decode<uint16_t>(array, items);
      return true;
    case ValueType::kI16:
      decode<int16_t>(array, items);
      return true;
    case ValueType::kU32:
      decode<uint32_t>(array, items);
      return true;
    case ValueType::kI32:
      decode<int32_t>(array, items);
      return true;
    case ValueType::kU64:
    case ValueType::kI64:
      decode<int64_t>(array, items);
      return true;
    case ValueType::kBool:
      decode<uint8_t>(array, items);
      for (int64_t& item : items) item = item != 0 ? 1 : 0;
      return true;
    default:
      return false;
  }
}

void decode_strings(const ArrayBytes& array, std::vector<std::string_view>& items) {
  items.resize(array.count);
  const std::byte* at = array.bytes.data();
  for (std::string_view& item : items) {
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    item = {reinterpret_cast<const char*>(at + sizeof length), length};
    at += sizeof length + length;
  }
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
  if (const auto* array = std::get_if<ArrayBytes>(&data)) return array->count;
  return 0;
}

std::optional<std::vector<int64_t>> Value::ints() const {
  if (type != ValueType::kArray) return std::nullopt;
  if (const auto* items = std::get_if<std::vector<int64_t>>(&data)) return *items;
  std::vector<int64_t> items;
  const auto* array = std::get_if<ArrayBytes>(&data);
  if (array_size() == 0 || (array != nullptr && decode_ints(element_type, *array, items))) return items;
  return std::nullopt;
}

std::optional<std::vector<double>> Value::floats() const {
  if (type != ValueType::kArray) return std::nullopt;
  if (const auto* items = std::get_if<std::vector<double>>(&data)) return *items;
  std::vector<double> items;
  if (array_size() == 0) return items;
  const auto* array = std::get_if<ArrayBytes>(&data);
  if (array == nullptr || (element_type != ValueType::kF32 && element_type != ValueType::kF64)) return std::nullopt;
  element_type == ValueType::kF32 ? decode<float>(*array, items) : decode<double>(*array, items);
  return items;
}

std::optional<std::vector<std::string_view>> Value::strings() const {
  if (type != ValueType::kArray) return std::nullopt;
  if (const auto* items = std::get_if<std::vector<std::string_view>>(&data)) return *items;
  std::vector<std::string_view> items;
  if (array_size() == 0) return items;
  const auto* array = std::get_if<ArrayBytes>(&data);
  if (array == nullptr || element_type != ValueType::kString) return std::nullopt;
  decode_strings(*array, items);
  return items;
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
  if (auto items = value->ints()) return items;
  fail_type(file_, key, "array of integers", *value);
}

std::optional<std::vector<double>> Metadata::find_floats(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (auto items = value->floats()) return items;
  fail_type(file_, key, "array of f32 or f64", *value);
}

std::optional<std::vector<std::string_view>> Metadata::find_strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (auto items = value->strings()) return items;
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
