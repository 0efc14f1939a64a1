// Q4_1: 32 elements, scale and minimum, 4 bits.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ4_1 {
  static constexpr int kElements = 32;
  uint16_t d;      // f16 scale
  uint16_t m;      // f16 minimum: the value of code 0
  uint8_t qs[16];  // nibbles as in Q4_0
};
static_assert(sizeof(BlockQ4_1) == 20);

// out[32]
LOCI_HD void unpack(const BlockQ4_1& block, float* out) {
  const float d = half_to_float(block.d);
  const float m = half_to_float(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(block.qs[i] & 15) * d + m;
    out[i + 16] = static_cast<float>(block.qs[i] >> 4) * d + m;
  }
}

}  // namespace loci::quant
