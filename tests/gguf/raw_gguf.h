// RawGguf: builds GGUF bytes without any check, so that a test can make one field wrong while the rest is right.
// Also a temporary folder for the files.
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/metadata.h"

namespace loci::gguf::test {

template <typename T>
std::string le(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline std::string packed_string(std::string_view text) { return le<uint64_t>(text.size()) + std::string(text); }

inline std::string type_id(ValueType type) { return le(static_cast<uint32_t>(type)); }

// Encoded values: type id and payload.
inline std::string u32(uint32_t value) { return type_id(ValueType::kU32) + le(value); }
inline std::string text(std::string_view value) { return type_id(ValueType::kString) + packed_string(value); }
inline std::string array(ValueType element, uint64_t count, const std::string& payload) {
  return type_id(ValueType::kArray) + type_id(element) + le(count) + payload;
}

struct RawTensor {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type = 0;
  uint64_t offset = 0;
  std::optional<uint32_t> n_dims = {};  // instead of the number of dims
};

struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors = {};  // instead of as many as there are
  std::optional<uint64_t> n_pairs = {};
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<RawTensor> tensors;
  size_t alignment = 32;
  std::string data;  // the data section

  std::string header() const {
    std::string out = magic + le(version);
    out += le<uint64_t>(n_tensors.value_or(tensors.size()));
    out += le<uint64_t>(n_pairs.value_or(pairs.size()));
    for (const auto& [key, value] : pairs) out += packed_string(key) + value;
    for (const RawTensor& tensor : tensors) {
      out += packed_string(tensor.name);
      out += le(tensor.n_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (const uint64_t dim : tensor.dims) out += le(dim);
      out += le(tensor.type) + le(tensor.offset);
    }
    return out;
  }
  std::string bytes() const {
    std::string out = header();
    out.append((alignment - out.size() % alignment) % alignment, '\0');
    return out + data;
  }
};

// Two small tensors (F32 [8, 2] and Q8_0 [32]) and a value of every kind.
inline RawGguf small_model() {
  RawGguf raw;
  raw.pairs = {
      {"general.architecture", text("tiny")},
      {"tiny.block_count", u32(1)},
      {"tiny.eps", type_id(ValueType::kF32) + le(0.5f)},
      {"tiny.flag", type_id(ValueType::kBool) + le<uint8_t>(1)},
      {"tiny.big", type_id(ValueType::kU64) + le<uint64_t>(1ull << 60)},
      {"tiny.names", array(ValueType::kString, 3, packed_string("a") + packed_string("") + packed_string("bc"))},
      {"tiny.steps", array(ValueType::kI32, 2, le<int32_t>(-1) + le<int32_t>(7))},
      {"tiny.scores", array(ValueType::kF32, 2, le(1.5f) + le(-2.0f))},
  };
  raw.tensors = {{"a.weight", {8, 2}, 0, 0}, {"b.weight", {32}, 8, 64}};
  for (int i = 0; i < 16; ++i) raw.data += le(static_cast<float>(i));
  raw.data += le<uint16_t>(0x3c00);  // Q8_0 scale 1
  for (int i = 0; i < 32; ++i) raw.data += static_cast<char>(i - 16);
  raw.data.append(30, '\0');  // up to a multiple of 32
  return raw;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loci-gguf-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

}  // namespace loci::gguf::test
