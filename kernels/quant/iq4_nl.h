// IQ4_NL: 32 elements, one scale, 4-bit indices into a fixed table whose steps widen away from zero.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockIQ4_NL {
  static constexpr int kElements = 32;
  uint16_t d;      // f16 scale
  uint8_t qs[16];  // indices, nibbles as in Q4_0
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// The value of index 0..15, before the scale. IQ4_XS uses the same table.
LOCI_HD int iq4_value(int index) {
  constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kValues[index];
}

// out[32]
LOCI_HD void unpack(const BlockIQ4_NL& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(iq4_value(block.qs[i] & 15));
    out[i + 16] = d * static_cast<float>(iq4_value(block.qs[i] >> 4));
  }
}

}  // namespace loci::quant
