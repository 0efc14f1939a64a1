// Q5_K: 256 elements in 8 groups of 32, 5 bits, 6-bit scales and minimums.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"
#include "kernels/quant/q4_k.h"

namespace loci::quant {

struct BlockQ5_K {
  static constexpr int kElements = 256;
  uint16_t d;          // f16, multiplies the scales
  uint16_t dmin;       // f16, multiplies the minimums
  uint8_t scales[12];  // k_scale, k_min
  uint8_t qh[32];      // fifth bit of element i of group j: bit j of qh[i]
  uint8_t qs[128];     // low four bits, placed as in Q4_K
};
static_assert(sizeof(BlockQ5_K) == 176);

// out[256]
LOCI_HD void unpack(const BlockQ5_K& block, float* out) {
  const float d = half_to_float(block.d);
  const float dmin = half_to_float(block.dmin);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(k_scale(block.scales, j));
    const float minimum = dmin * static_cast<float>(k_min(block.scales, j));
    const uint8_t* bytes = block.qs + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) {
      const int code = ((bytes[i] >> shift) & 15) | ((block.qh[i] >> j) & 1) << 4;
      out[32 * j + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

}  // namespace loci::quant
