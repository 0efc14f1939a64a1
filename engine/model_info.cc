#include "engine/model_info.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gguf/printable.h"
#include "kernels/error.h"

namespace loci {
namespace {

// general.file_type: its text and the type that must occur among the tensors for it to be believed.
struct FileTypeName {
  int64_t id;
  std::string_view text;
  DType type;
};
constexpr FileTypeName kFileTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {7, "Q8_0", DType::kQ8_0},
    {8, "Q5_0", DType::kQ5_0},
    {9, "Q5_1", DType::kQ5_1},
    {10, "Q2_K", DType::kQ2_K},
    {11, "Q3_K - Small", DType::kQ3_K},
    {12, "Q3_K - Medium", DType::kQ3_K},
    {13, "Q3_K - Large", DType::kQ3_K},
    {14, "Q4_K - Small", DType::kQ4_K},
    {15, "Q4_K - Medium", DType::kQ4_K},
    {16, "Q5_K - Small", DType::kQ5_K},
    {17, "Q5_K - Medium", DType::kQ5_K},
    {18, "Q6_K", DType::kQ6_K},
    {25, "IQ4_NL", DType::kIQ4_NL},
    {30, "IQ4_XS", DType::kIQ4_XS},
    {32, "BF16", DType::kBF16},
    {36, "TQ1_0", DType::kTQ1_0},
    {37, "TQ2_0", DType::kTQ2_0},
    {38, "MXFP4", DType::kMXFP4},
};

gguf::Value parse_override(const std::string& key, const std::string& text) {
  const size_t colon = text.find(':');
  const std::string type = text.substr(0, colon);
  const std::string body = colon == std::string::npos ? "" : text.substr(colon + 1);
  gguf::Value value;
  const char* end = body.data() + body.size();
  const auto refuse = [&](const char* expected) {
    fail(ErrorKind::kInvalidInput, "--override-kv ", key, ": expected ", expected, ", found '", text, "'");
  };
  if (colon == std::string::npos) refuse("TYPE:VALUE with TYPE int, float, bool or str");
  if (type == "int") {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(body.data(), end, number);
    if (error != std::errc() || rest != end) refuse("int: and a whole number");
    value.type = gguf::ValueType::kI64;
    value.data = number;
  } else if (type == "float") {
    double number = 0;
    const auto [rest, error] = std::from_chars(body.data(), end, number);
    if (error != std::errc() || rest != end || !std::isfinite(number)) refuse("float: and a finite number");
    value.type = gguf::ValueType::kF64;
    value.data = number;
  } else if (type == "bool") {
    if (body != "true" && body != "false") refuse("bool:true or bool:false");
    value.type = gguf::ValueType::kBool;
    value.data = body == "true";
  } else if (type == "str") {
    value.type = gguf::ValueType::kString;
    value.data = body;
  } else {
    refuse("TYPE:VALUE with TYPE int, float, bool or str");
  }
  return value;
}

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void bytes(const void* data, size_t size) { XXH3_64bits_update(&state_, data, size); }
  void text(std::string_view s) {
    number(s.size());
    bytes(s.data(), s.size());
  }
  template <typename T>
  void number(T value) {
    bytes(&value, sizeof value);
  }
  uint64_t digest() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

void add(Hash& hash, const gguf::Value& value) {
  hash.number(value.type);
  hash.number(value.element_type);
  std::visit(
      [&](const auto& data) {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::string>) {
          hash.text(data);
        } else if constexpr (std::is_same_v<T, gguf::ArrayBytes>) {
          hash.number(data.count);
          hash.bytes(data.bytes.data(), data.bytes.size());
        } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
          for (const std::string_view s : data) hash.text(s);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>) {
          hash.bytes(data.data(), data.size() * sizeof(data[0]));
        } else {
          hash.number(data);
        }
      },
      value.data);
}

}  // namespace

std::string quantization_text(const gguf::File& file) {
  std::map<DType, int64_t> elements;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.ne[1] > 1) elements[tensor.type] += tensor.n_elements();
  }
  if (elements.empty()) return "none";
  const int64_t file_type = file.metadata().find("general.file_type") == nullptr
                                ? -1
                                : file.metadata().find_int("general.file_type").value_or(-1);
  for (const FileTypeName& entry : kFileTypes) {
    if (entry.id == file_type && elements.contains(entry.type)) return std::string(entry.text);
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return std::string(name(most->first));
}

gguf::Metadata with_overrides(const gguf::File& file, const EngineConfig& config) {
  gguf::Metadata metadata = file.metadata();
  for (const auto& [key, value] : config.override_kv) metadata.set(key, parse_override(key, value));
  return metadata;
}

uint64_t fingerprint(const gguf::File& file, const gguf::Metadata& metadata, const ArchSpec& arch) {
  constexpr int64_t kSampleBytes = 4096;
  Hash hash;
  for (const std::string& key : metadata.keys()) {
    hash.text(key);
    add(hash, *metadata.find(key));
  }
  for (const TensorView& tensor : file.tensors()) {
    hash.text(tensor.name);
    hash.number(tensor.type);
    hash.bytes(tensor.ne.data(), sizeof tensor.ne);
    std::array<std::byte, kSampleBytes> bytes;
    const std::span sample(bytes.data(), static_cast<size_t>(std::min(kSampleBytes, tensor.n_bytes())));
    file.read(tensor.data, sample);
    hash.bytes(sample.data(), sample.size());
  }
  for (const RopeSpec& rope : arch.ropes) {
    hash.number(rope.n_rot);
    for (const double value : {rope.freq_base, rope.freq_scale, rope.ext_factor, rope.attn_factor, rope.beta_fast,
                               rope.beta_slow, static_cast<double>(rope.original_ctx)}) {
      hash.number(value);
    }
  }
  return hash.digest();
}

}  // namespace loci
