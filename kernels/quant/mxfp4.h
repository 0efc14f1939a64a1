// MXFP4: 32 elements of FP4 (E2M1) with a shared power-of-two scale (OCP Microscaling Formats 1.0).
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockMXFP4 {
  static constexpr int kElements = 32;
  uint8_t e;       // scale 2^(e - 127)
  uint8_t qs[16];  // FP4 codes, nibbles as in Q4_0
};
static_assert(sizeof(BlockMXFP4) == 17);

// Twice the value of FP4 code 0..15 (bit 3 is the sign): an integer. Code 8 is minus zero, given as 0.
LOCI_HD int fp4_doubled(int code) {
  constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return kValues[code];
}

// Half the scale, 2^(e - 128), so that it multiplies fp4_doubled(). e of 0 and 1 gives f32 subnormals.
LOCI_HD float mxfp4_half_scale(int e) {
  return float_from_bits(e < 2 ? 0x200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

// out[32]
LOCI_HD void unpack(const BlockMXFP4& block, float* out) {
  const float d = mxfp4_half_scale(block.e);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(fp4_doubled(block.qs[i] & 15));
    out[i + 16] = d * static_cast<float>(fp4_doubled(block.qs[i] >> 4));
  }
}

}  // namespace loci::quant
