// TQ2_0: 256 ternary elements of two bits, one scale.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockTQ2_0 {
  static constexpr int kElements = 256;
  uint8_t qs[64];  // half h, two-bit plane l, byte i: element 128 h + 32 l + i
  uint16_t d;      // f16 scale
};
static_assert(sizeof(BlockTQ2_0) == 66);

// out[256]
LOCI_HD void unpack(const BlockTQ2_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 4; ++l) {
      for (int i = 0; i < 32; ++i) {
        out[128 * h + 32 * l + i] = static_cast<float>(((block.qs[32 * h + i] >> (2 * l)) & 3) - 1) * d;
      }
    }
  }
}

}  // namespace loci::quant
