// TQ1_0: 256 ternary elements, five base-3 digits to a byte, one scale.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

namespace loci::quant {

struct BlockTQ1_0 {
  static constexpr int kElements = 256;
  uint8_t qs[48];  // elements 0..159 in qs[0..31], 160..239 in qs[32..47]: digit n of byte b after n * bytes elements
  uint8_t qh[4];   // elements 240..255, four digits to a byte
  uint16_t d;      // f16 scale
};
static_assert(sizeof(BlockTQ1_0) == 54);

// Base-3 digit n (0..4, most significant first) of a byte that holds digits as a fixed-point fraction of 256.
LOCI_HD int ternary_digit(uint8_t byte, int n) {
  constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
  const uint8_t shifted = static_cast<uint8_t>(byte * kPower[n]);
  return (shifted * 3) >> 8;
}

// out[256]
LOCI_HD void unpack(const BlockTQ1_0& block, float* out) {
  const float d = half_to_float(block.d);
  for (int n = 0; n < 5; ++n) {
    for (int i = 0; i < 32; ++i) out[32 * n + i] = static_cast<float>(ternary_digit(block.qs[i], n) - 1) * d;
    for (int i = 0; i < 16; ++i) out[160 + 16 * n + i] = static_cast<float>(ternary_digit(block.qs[32 + i], n) - 1) * d;
  }
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 4; ++i) out[240 + 4 * n + i] = static_cast<float>(ternary_digit(block.qh[i], n) - 1) * d;
  }
}

}  // namespace loci::quant
