// Q4_K: 256 elements in 8 groups of 32, 4 bits, 6-bit scales and minimums. The scale packing is Q5_K's too.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

// The 6-bit scale and minimum of group j (0..7) out of their 12 packed bytes.
LOCI_HD int k_scale(const uint8_t* packed, int j) {
  return j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
}
LOCI_HD int k_min(const uint8_t* packed, int j) {
  return j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
}

struct BlockQ4_K {
  static constexpr int kElements = 256;
  uint16_t d;          // f16, multiplies the scales
  uint16_t dmin;       // f16, multiplies the minimums
  uint8_t scales[12];  // k_scale, k_min
  uint8_t qs[128];     // group j: bytes 32 (j/2) .. +31, low nibble for even j, high nibble for odd j
};
static_assert(sizeof(BlockQ4_K) == 144);

// out[256]
LOCI_HD void unpack(const BlockQ4_K& block, float* out) {
  const float d = half_to_float(block.d);
  const float dmin = half_to_float(block.dmin);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(k_scale(block.scales, j));
    const float minimum = dmin * static_cast<float>(k_min(block.scales, j));
    const uint8_t* bytes = block.qs + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) out[32 * j + i] = scale * static_cast<float>((bytes[i] >> shift) & 15) - minimum;
  }
}

}  // namespace loci::quant
