// Metadata: a GGUF file's key/value pairs with typed look-ups whose errors name file, key, expected and found type.
// Integers convert between widths and signs when the value fits; floats accept f32 and f64.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace loci::gguf {

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view name(ValueType type);

// An array as it lies in a file: elements of Value::element_type back to back, a string as its length (u64) and its
// bytes. Checked by the reader. Valid as long as the file is open.
struct ArrayBytes {
  std::span<const std::byte> bytes;
  size_t count = 0;
};

// One value. Scalars: integers of any width are kept as int64 (u64 above 2^63 as uint64), floats as double.
// Arrays keep their element type. Those of a file stay where they are: a vocabulary has some hundred thousand elements.
struct Value {
  ValueType type = ValueType::kU32;
  ValueType element_type = ValueType::kU32;  // arrays only
  std::variant<int64_t, uint64_t, double, bool, std::string, ArrayBytes, std::vector<int64_t>, std::vector<double>,
               std::vector<std::string_view>>
      data;
  size_t array_size() const;  // 0 for scalars
  // The elements of an array of integers or bools, of f32 or f64, of strings; nullopt for any other value. An empty
  // array is one of any type. Strings are views into the file.
  std::optional<std::vector<int64_t>> ints() const;
  std::optional<std::vector<double>> floats() const;
  std::optional<std::vector<std::string_view>> strings() const;
};

class Metadata {
 public:
  explicit Metadata(std::string file = "") : file_(std::move(file)) {}
  // Later values replace earlier ones (used by --override-kv and by tests); the reader refuses duplicates itself.
  // A replaced key keeps its place in the order.
  void set(std::string key, Value value);

  bool has(std::string_view key) const;
  const Value* find(std::string_view key) const;
  // Keys in file order.
  const std::vector<std::string>& keys() const { return order_; }
  const std::string& file() const { return file_; }

  // The optional forms return nullopt when the key is absent and throw Error when it has the wrong type or does
  // not fit; the required forms throw Error when it is absent.
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_ints(std::string_view key) const;  // integer or bool array
  std::optional<std::vector<double>> find_floats(std::string_view key) const;
  std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;
  int64_t require_int(std::string_view key) const;
  std::string require_string(std::string_view key) const;

 private:
  std::string file_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> order_;
};

}  // namespace loci::gguf
