// NVFP4: 64 elements of FP4 (E2M1) in four groups of 16, each with an unsigned E4M3 scale.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"
#include "kernels/quant/mxfp4.h"

namespace loci::quant {

struct BlockNVFP4 {
  static constexpr int kElements = 64;
  uint8_t d[4];    // scale of each group, ue4m3_to_float
  uint8_t qs[32];  // group s: bytes 8 s .. +7; low nibbles its first 8 elements, high nibbles its second 8
};
static_assert(sizeof(BlockNVFP4) == 36);

// Unsigned E4M3, bias 7. The NaN pattern 0x7f means 0; the top bit is not used.
LOCI_HD float ue4m3_to_float(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return 0.0f;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-9f;
  return float_from_bits(static_cast<uint32_t>(exponent + 120) << 23 | static_cast<uint32_t>(mantissa) << 20);
}

// out[64]
LOCI_HD void unpack(const BlockNVFP4& block, float* out) {
  for (int s = 0; s < 4; ++s) {
    const float d = ue4m3_to_float(block.d[s]) * 0.5f;
    for (int i = 0; i < 8; ++i) {
      const uint8_t byte = block.qs[8 * s + i];
      out[16 * s + i] = d * static_cast<float>(fp4_doubled(byte & 15));
      out[16 * s + 8 + i] = d * static_cast<float>(fp4_doubled(byte >> 4));
    }
  }
}

}  // namespace loci::quant
