// Q1_0: 128 elements, one sign bit each, one scale.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ1_0 {
  static constexpr int kElements = 128;
  uint16_t d;      // f16 scale
  uint8_t qs[16];  // bit i: +d when set, -d when clear
};
static_assert(sizeof(BlockQ1_0) == 18);

// out[128]
LOCI_HD void unpack(const BlockQ1_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 128; ++i) out[i] = ((block.qs[i / 8] >> (i % 8)) & 1) != 0 ? d : -d;
}

}  // namespace loci::quant
