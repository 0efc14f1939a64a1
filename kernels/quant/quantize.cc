// quantize_row: f32 rows to blocks.
#include <cstring>

#include "kernels/check.h"
#include "kernels/quant/pack.h"
#include "kernels/quant/quant.h"

// The types of quant_list.h that have a packer.
#define LOCI_PACKED_TYPES(X) \
  X(Q4_0)                    \
  X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4) X(TQ1_0) X(TQ2_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS)

namespace loci {
namespace {

template <typename Block>
void pack_row(const float* src, std::byte* dst, int64_t n, const float* importance) {
  for (int64_t i = 0; i < n; i += Block::kElements, dst += sizeof(Block)) {
    Block block{};
    quant::pack(src + i, importance != nullptr ? importance + i : nullptr, block);
    std::memcpy(dst, &block, sizeof(block));
  }
}

template <typename Convert>
void convert_row(const float* src, std::byte* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = convert(src[i]);
    std::memcpy(dst + i * static_cast<int64_t>(sizeof(half)), &half, sizeof(half));
  }
}

}  // namespace

bool can_quantize(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
#define LOCI_PACK_CASE(NAME) case DType::k##NAME:
      LOCI_PACKED_TYPES(LOCI_PACK_CASE)
#undef LOCI_PACK_CASE
      return true;
    default:
      return false;
  }
}

void quantize_row(DType type, const float* src, std::byte* dst, int64_t n, const float* importance) {
  LOCI_CHECK(n % traits(type).block_elements == 0, name(type), " row of ", n, " elements");
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return convert_row(src, dst, n, f32_to_f16);
    case DType::kBF16:
      return convert_row(src, dst, n, f32_to_bf16);
#define LOCI_PACK_CASE(NAME) \
  case DType::k##NAME:       \
    return pack_row<quant::Block##NAME>(src, dst, n, importance);
      LOCI_PACKED_TYPES(LOCI_PACK_CASE)
#undef LOCI_PACK_CASE
    default:
      LOCI_CHECK(false, name(type), " has no quantizer");
  }
}

}  // namespace loci
