// Q8_0: 32 elements, one scale, signed bytes.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ8_0 {
  static constexpr int kElements = 32;
  uint16_t d;     // f16 scale
  int8_t qs[32];  // in order
};
static_assert(sizeof(BlockQ8_0) == 34);

// out[32]
LOCI_HD void unpack(const BlockQ8_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.qs[i]) * d;
}

}  // namespace loci::quant
