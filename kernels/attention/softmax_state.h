// SoftmaxState: what a row keeps of the keys it has seen so far, and how two disjoint parts are merged
// (flash-decoding; the state of FlashInfer, Ye et al. 2025, arXiv:2501.01005). Shared by all devices and tests.
//
// Scores are in base 2 inside the kernels: score2 = log2(e) * scale * q.k. With row_max m over the part's keys,
//   row_sum = sum 2^(score2 - m),   acc[d] = sum 2^(score2 - m) * v[d]
// An empty part has row_max = -inf and is the identity of the merge.
#pragma once
#include <cstdint>

#include "kernels/hd.h"

namespace loci {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

// Layout of one row's state in floats, `stride` from row to row:
//   row_max [1] (+ 15 unused) | row_sum [16], one partial sum per lane = position mod 16 | acc [head_dim, padded to 16]
struct SoftmaxStateLayout {
  static constexpr int kRowMax = 0;
  static constexpr int kRowSum = 16;
  static constexpr int kAcc = 32;
  LOCI_HD static constexpr int stride(int head_dim) { return kAcc + (head_dim + 15) / 16 * 16; }
};

// Factors that bring two parts to their common maximum. `exp2_fn` maps 0 to exactly 1 and -inf to exactly 0.
struct MergeWeights {
  float row_max, a, b;
};
template <typename Exp2>
LOCI_HD MergeWeights merge_weights(float max_a, float max_b, Exp2&& exp2_fn) {
  const float row_max = max_a > max_b ? max_a : max_b;
  if (!(row_max > -__builtin_inff())) return {row_max, 1.0f, 1.0f};  // both empty: -inf - -inf is not a number
  return {row_max, exp2_fn(max_a - row_max), exp2_fn(max_b - row_max)};
}

// Natural-log lse = log sum e^score of a reduced state: what leaves the kernels.
template <typename Log2>
LOCI_HD float state_lse(float row_max, float row_sum, Log2&& log2_fn) {
  return kLn2 * (row_max + log2_fn(row_sum));
}

}  // namespace loci
