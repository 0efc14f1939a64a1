// IQ4_XS: 256 elements in 8 groups of 32, indices into IQ4_NL's table, signed 6-bit scales.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"
#include "kernels/quant/iq4_nl.h"

namespace loci::quant {

struct BlockIQ4_XS {
  static constexpr int kElements = 256;
  uint16_t d;           // f16, multiplies the scales
  uint16_t scales_h;    // top two bits of the scales, group j at bit 2 j
  uint8_t scales_l[4];  // low four bits, group j in nibble j
  uint8_t qs[128];      // group j: bytes 16 j .. +15, nibbles as in IQ4_NL

  // Scale of group j (0..7), -32..31.
  LOCI_HD int scale(int j) const {
    return (((scales_l[j / 2] >> (4 * (j % 2))) & 15) | ((scales_h >> (2 * j)) & 3) << 4) - 32;
  }
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// out[256]
LOCI_HD void unpack(const BlockIQ4_XS& block, float* out) {
  const float d = half_to_float(block.d);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(block.scale(j));
    for (int i = 0; i < 16; ++i) {
      const uint8_t byte = block.qs[16 * j + i];
      out[32 * j + i] = scale * static_cast<float>(iq4_value(byte & 15));
      out[32 * j + i + 16] = scale * static_cast<float>(iq4_value(byte >> 4));
    }
  }
}

}  // namespace loci::quant
