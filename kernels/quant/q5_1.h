// Q5_1: 32 elements, scale and minimum, 5 bits.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"
#include "kernels/quant/q5_0.h"

namespace loci::quant {

struct BlockQ5_1 {
  static constexpr int kElements = 32;
  uint16_t d;      // f16 scale
  uint16_t m;      // f16 minimum: the value of code 0
  uint8_t qh[4];   // fifth bits as in Q5_0
  uint8_t qs[16];  // low four bits, nibbles as in Q4_0
};
static_assert(sizeof(BlockQ5_1) == 24);

// out[32]
LOCI_HD void unpack(const BlockQ5_1& block, float* out) {
  const float d = half_to_float(block.d);
  const float m = half_to_float(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((block.qs[i] & 15) | fifth_bit(block.qh, i)) * d + m;
    out[i + 16] = static_cast<float>((block.qs[i] >> 4) | fifth_bit(block.qh, i + 16)) * d + m;
  }
}

}  // namespace loci::quant
