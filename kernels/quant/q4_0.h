// Q4_0: 32 elements, one scale, 4 bits, zero at code 8.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ4_0 {
  static constexpr int kElements = 32;
  uint16_t d;      // f16 scale
  uint8_t qs[16];  // element i in the low nibble of qs[i], element i + 16 in the high nibble
};
static_assert(sizeof(BlockQ4_0) == 18);

// out[32]
LOCI_HD void unpack(const BlockQ4_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((block.qs[i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((block.qs[i] >> 4) - 8) * d;
  }
}

}  // namespace loci::quant
