// Q5_0: 32 elements, one scale, 5 bits, zero at code 16.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ5_0 {
  static constexpr int kElements = 32;
  uint16_t d;      // f16 scale
  uint8_t qh[4];   // fifth bits: little-endian 32-bit word, bit i belongs to element i
  uint8_t qs[16];  // low four bits, nibbles as in Q4_0
};
static_assert(sizeof(BlockQ5_0) == 22);

// The fifth bit of element i (0..31), as 0 or 16.
LOCI_HD int fifth_bit(const uint8_t* qh, int i) { return ((qh[i >> 3] >> (i & 7)) & 1) << 4; }

// out[32]
LOCI_HD void unpack(const BlockQ5_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(((block.qs[i] & 15) | fifth_bit(block.qh, i)) - 16) * d;
    out[i + 16] = static_cast<float>(((block.qs[i] >> 4) | fifth_bit(block.qh, i + 16)) - 16) * d;
  }
}

}  // namespace loci::quant
