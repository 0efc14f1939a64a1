// Q2_0: 64 elements of two bits with zero at code 1, one scale.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ2_0 {
  static constexpr int kElements = 64;
  uint16_t d;      // f16 scale
  uint8_t qs[16];  // four elements to a byte, least significant bits first
};
static_assert(sizeof(BlockQ2_0) == 18);

// out[64]
LOCI_HD void unpack(const BlockQ2_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 64; ++i) out[i] = static_cast<float>(((block.qs[i / 4] >> (2 * (i % 4))) & 3) - 1) * d;
}

}  // namespace loci::quant
