// Q2_K: 256 elements in 16 groups of 16, 2 bits, 4-bit scales and minimums.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ2_K {
  static constexpr int kElements = 256;
  uint8_t scales[16];  // group g: scale in the low nibble, minimum in the high nibble
  uint8_t qs[64];      // see shift and byte in unpack()
  uint16_t d;          // f16, multiplies the scales
  uint16_t dmin;       // f16, multiplies the minimums
};
static_assert(sizeof(BlockQ2_K) == 84);

// out[256]
LOCI_HD void unpack(const BlockQ2_K& block, float* out) {
  const float d = half_to_float(block.d);
  const float dmin = half_to_float(block.dmin);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(block.scales[g] & 15);
    const float minimum = dmin * static_cast<float>(block.scales[g] >> 4);
    const uint8_t* bytes = block.qs + 32 * (g / 8) + 16 * (g % 2);
    const int shift = 2 * ((g % 8) / 2);
    for (int i = 0; i < 16; ++i) out[16 * g + i] = scale * static_cast<float>((bytes[i] >> shift) & 3) - minimum;
  }
}

}  // namespace loci::quant
