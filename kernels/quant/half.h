// f16 and bf16 as bit patterns, to and from f32: exact one way (bf16 bit by bit), round to nearest even
// the other; NaN stays NaN, made quiet where bits are dropped or moved.
#pragma once
#include <cstdint>

#include "kernels/hd.h"

namespace loci::quant {

LOCI_HD uint32_t float_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

LOCI_HD float float_from_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

LOCI_HD float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: mantissa units of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return float_from_bits(float_bits(magnitude) | sign);
  }
  if (exponent == 31) {  // infinity and NaN
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return float_from_bits(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  return float_from_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
}

LOCI_HD uint16_t float_to_half(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and above: infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is a multiple of 2^-24. Added to 0.5, whose unit in the last place is 2^-24, the
    // hardware rounds to that multiple, and the low bits of the sum are the subnormal's mantissa.
    const float sum = float_from_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_bits(sum) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

LOCI_HD float bfloat_to_float(uint16_t bfloat) { return float_from_bits(static_cast<uint32_t>(bfloat) << 16); }

LOCI_HD uint16_t float_to_bfloat(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace loci::quant
