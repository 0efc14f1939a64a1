// Q8_K: 256 elements, f32 scale, signed bytes: the activation format of the K types.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockQ8_K {
  static constexpr int kElements = 256;
  float d;            // scale
  int8_t qs[256];     // in order
  int16_t bsums[16];  // sum of each 16 of qs
};
static_assert(sizeof(BlockQ8_K) == 292);

// out[256]
LOCI_HD void unpack(const BlockQ8_K& block, float* out) {
  for (int i = 0; i < 256; ++i) out[i] = static_cast<float>(block.qs[i]) * block.d;
}

}  // namespace loci::quant
