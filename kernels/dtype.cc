// The table of tensor types. Block shapes: docs/gguf.md; each is checked against its struct in quant/quant_list.h.
#include "kernels/dtype.h"

#include <algorithm>
#include <cctype>

#include "kernels/check.h"

namespace loci {
namespace {

constexpr DTypeTraits kTraits[] = {
    {DType::kF32, "F32", 1, 4, true},
    {DType::kF16, "F16", 1, 2, true},
    {DType::kQ4_0, "Q4_0", 32, 18, true},
    {DType::kQ4_1, "Q4_1", 32, 20, true},
    {DType::kQ5_0, "Q5_0", 32, 22, true},
    {DType::kQ5_1, "Q5_1", 32, 24, true},
    {DType::kQ8_0, "Q8_0", 32, 34, true},
    {DType::kQ8_1, "Q8_1", 32, 36, true},
    {DType::kQ2_K, "Q2_K", 256, 84, true},
    {DType::kQ3_K, "Q3_K", 256, 110, true},
    {DType::kQ4_K, "Q4_K", 256, 144, true},
    {DType::kQ5_K, "Q5_K", 256, 176, true},
    {DType::kQ6_K, "Q6_K", 256, 210, true},
    {DType::kQ8_K, "Q8_K", 256, 292, true},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 66, false},
    {DType::kIQ2_XS, "IQ2_XS", 256, 74, false},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 98, false},
    {DType::kIQ1_S, "IQ1_S", 256, 50, false},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18, true},
    {DType::kIQ3_S, "IQ3_S", 256, 110, false},
    {DType::kIQ2_S, "IQ2_S", 256, 82, false},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136, true},
    {DType::kI8, "I8", 1, 1, true},
    {DType::kI16, "I16", 1, 2, true},
    {DType::kI32, "I32", 1, 4, true},
    {DType::kI64, "I64", 1, 8, true},
    {DType::kF64, "F64", 1, 8, true},
    {DType::kIQ1_M, "IQ1_M", 256, 56, false},
    {DType::kBF16, "BF16", 1, 2, true},
    {DType::kTQ1_0, "TQ1_0", 256, 54, true},
    {DType::kTQ2_0, "TQ2_0", 256, 66, true},
    {DType::kMXFP4, "MXFP4", 32, 17, true},
    {DType::kNVFP4, "NVFP4", 64, 36, true},
    {DType::kQ1_0, "Q1_0", 128, 18, true},
    {DType::kQ2_0, "Q2_0", 64, 18, true},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

const DTypeTraits* find_dtype(uint32_t id) {
  for (const DTypeTraits& entry : kTraits) {
    if (static_cast<uint32_t>(entry.type) == id) return &entry;
  }
  return nullptr;
}

const DTypeTraits& traits(DType type) {
  const DTypeTraits* entry = find_dtype(static_cast<uint32_t>(type));
  LOCI_CHECK(entry != nullptr, "unknown tensor type ", static_cast<uint32_t>(type));
  return *entry;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeTraits& entry : kTraits) {
    if (equal_ignoring_case(entry.name, name)) return entry.type;
  }
  return std::nullopt;
}

int64_t row_bytes(DType type, int64_t n) {
  const DTypeTraits& entry = traits(type);
  LOCI_DCHECK(n % entry.block_elements == 0, entry.name, " row of ", n, " elements");
  return n / entry.block_elements * entry.block_bytes;
}

}  // namespace loci
