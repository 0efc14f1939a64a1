// DType: the tensor types of a GGUF file, with their block shape. Values are the file format's type ids.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace loci {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct DTypeTraits {
  DType type;
  std::string_view name;   // "Q4_K", as written in tables
  int64_t block_elements;  // elements per block (1 for plain types)
  int64_t block_bytes;     // bytes per block
  bool can_dequantize;     // false: known size only (codebook types); a model that needs it is refused
};

// Traits of a type id from a file; nullptr for unknown or retired ids.
const DTypeTraits* find_dtype(uint32_t id);
// Traits of a known type.
const DTypeTraits& traits(DType type);
inline std::string_view name(DType type) { return traits(type).name; }
// "q4_k" or "Q4_K" -> DType::kQ4_K.
std::optional<DType> dtype_from_name(std::string_view name);
// Bytes of a row of n elements. REQUIRES: n is a multiple of block_elements.
int64_t row_bytes(DType type, int64_t n);

}  // namespace loci
