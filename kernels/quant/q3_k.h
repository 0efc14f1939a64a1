// Q3_K: 256 elements in 16 groups of 16, 3 bits (two low, one high), signed 6-bit scales.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ3_K {
  static constexpr int kElements = 256;
  uint8_t hmask[32];   // high bits
  uint8_t qs[64];      // low two bits, placed as in Q2_K
  uint8_t scales[12];  // sixteen 6-bit scales, see scale()
  uint16_t d;          // f16, multiplies the scales

  // Scale of group g (0..15), -32..31.
  LOCI_HD int scale(int g) const {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | high << 4) - 32;
  }
};
static_assert(sizeof(BlockQ3_K) == 110);

// out[256]
LOCI_HD void unpack(const BlockQ3_K& block, float* out) {
  const float d = half_to_float(block.d);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(block.scale(g));
    const uint8_t* bytes = block.qs + 32 * (g / 8) + 16 * (g % 2);
    const uint8_t* high = block.hmask + 16 * (g % 2);
    const int shift = 2 * ((g % 8) / 2);
    const int high_shift = g / 2;
    for (int i = 0; i < 16; ++i) {
      const int low = (bytes[i] >> shift) & 3;
      const int offset = ((high[i] >> high_shift) & 1) != 0 ? 0 : 4;
      out[16 * g + i] = scale * static_cast<float>(low - offset);
    }
  }
}

}  // namespace loci::quant
