// dequantize_row: block rows to f32, and the public f16 and bf16 conversions.
#include <cstring>

#include "kernels/check.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/quant_list.h"

namespace loci {
namespace {

// Reads through memcpy: rows come from files and tests at any address.
template <typename Block>
void unpack_row(const std::byte* src, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; i += Block::kElements, src += sizeof(Block), dst += Block::kElements) {
    Block block;
    std::memcpy(&block, src, sizeof(block));
    quant::unpack(block, dst);
  }
}

template <typename T, typename Convert>
void convert_row(const std::byte* src, float* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, src + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    dst[i] = convert(value);
  }
}

template <typename T>
void cast_row(const std::byte* src, float* dst, int64_t n) {
  convert_row<T>(src, dst, n, [](T value) { return static_cast<float>(value); });
}

}  // namespace

void dequantize_row(DType type, const std::byte* src, float* dst, int64_t n) {
  LOCI_CHECK(n % traits(type).block_elements == 0, name(type), " row of ", n, " elements");
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return convert_row<uint16_t>(src, dst, n, quant::half_to_float);
    case DType::kBF16:
      return convert_row<uint16_t>(src, dst, n, quant::bfloat_to_float);
    case DType::kF64:
      return cast_row<double>(src, dst, n);
    case DType::kI8:
      return cast_row<int8_t>(src, dst, n);
    case DType::kI16:
      return cast_row<int16_t>(src, dst, n);
    case DType::kI32:
      return cast_row<int32_t>(src, dst, n);
    case DType::kI64:
      return cast_row<int64_t>(src, dst, n);
#define LOCI_UNPACK_CASE(NAME) \
  case DType::k##NAME:         \
    return unpack_row<quant::Block##NAME>(src, dst, n);
      LOCI_QUANT_TYPES(LOCI_UNPACK_CASE)
#undef LOCI_UNPACK_CASE
    default:
      LOCI_CHECK(false, name(type), " cannot be dequantized");
  }
}

float f16_to_f32(uint16_t h) { return quant::half_to_float(h); }
uint16_t f32_to_f16(float f) { return quant::float_to_half(f); }
float bf16_to_f32(uint16_t h) { return quant::bfloat_to_float(h); }
uint16_t f32_to_bf16(float f) { return quant::float_to_bfloat(f); }

}  // namespace loci
