// Q6_K: 256 elements in 16 groups of 16, 6 bits, signed byte scales.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ6_K {
  static constexpr int kElements = 256;
  uint8_t ql[128];    // low four bits
  uint8_t qh[64];     // top two bits
  int8_t scales[16];  // of each 16 elements
  uint16_t d;         // f16, multiplies the scales

  // Code of element i, -32..31.
  LOCI_HD int code(int i) const {
    const int half = i / 128, quarter = (i % 128) / 32, l = i % 32;
    const int low = (ql[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 15;
    const int high = (qh[32 * half + l] >> (2 * quarter)) & 3;
    return (low | high << 4) - 32;
  }
};
static_assert(sizeof(BlockQ6_K) == 210);

// out[256]
LOCI_HD void unpack(const BlockQ6_K& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(block.scales[i / 16]);
    out[i] = scale * static_cast<float>(block.code(i));
  }
}

}  // namespace loci::quant
