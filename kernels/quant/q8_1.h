// Q8_1: Q8_0 with the sum of its values, an activation format (the sum folds in the minimum of Q4_1 and its kin).
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ8_1 {
  static constexpr int kElements = 32;
  uint16_t d;     // f16 scale
  uint16_t s;     // f16: d times the sum of qs
  int8_t qs[32];  // in order
};
static_assert(sizeof(BlockQ8_1) == 36);

// out[32]
LOCI_HD void unpack(const BlockQ8_1& block, float* out) {
  const float d = half_to_float(block.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.qs[i]) * d;
}

}  // namespace loci::quant
