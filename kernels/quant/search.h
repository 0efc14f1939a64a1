// Scale and minimum search for packing f32 values: the least squares that all quantizers of this folder share.
// A group of n values x with weights w is written as codes q (small integers, kept as float here) so that
// sum_i w_i (x_i - scale q_i - offset)^2 is small. For fixed codes the best scale and offset follow from linear least
// squares; for fixed scale and offset the best codes are the nearest ones. The search starts from several scales around
// the one that spans the range, and keeps the best.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/quant/half.h"

namespace loci::quant {

constexpr int kMaxGroup = 256;
constexpr float kMaxHalf = 65504.0f;

// Nearest integer, ties to even, as float. REQUIRES: |x| < 2^22.
inline float round_even(float x) { return x + 12582912.0f - 12582912.0f; }

// Nearest f16, at most the largest finite one.
inline uint16_t finite_half(float x) { return float_to_half(std::clamp(x, -kMaxHalf, kMaxHalf)); }

inline float inverse(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

// Weighted sums in four lanes: a fixed order that the compiler can vectorize.
template <typename Term>
float lane_sum(int n, Term term) {
  float lanes[4] = {};
  for (int i = 0; i + 4 <= n; i += 4) {
    for (int lane = 0; lane < 4; ++lane) lanes[lane] += term(i + lane);
  }
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// q[i] = (x[i] - offset) / scale rounded to lo..hi. A scale of 0 (or so small that its inverse overflows) gives zeros.
inline void nearest_codes(const float* x, int n, float scale, float offset, float lo, float hi, float* q) {
  const float inv = inverse(scale);
  if (!std::isfinite(inv)) {
    std::fill(q, q + n, std::clamp(0.0f, lo, hi));
    return;
  }
  for (int i = 0; i < n; ++i) q[i] = round_even(std::min(hi, std::max(lo, (x[i] - offset) * inv)));
}

inline float weighted_error(const float* x, const float* w, int n, float scale, float offset, const float* q) {
  return lane_sum(n, [&](int i) {
    const float difference = x[i] - (scale * q[i] + offset);
    return w[i] * difference * difference;
  });
}

struct Fit {
  float scale = 0.0f;
  float offset = 0.0f;  // value of code 0
  float error = 0.0f;   // weighted, unrounded scale and offset
};

// Best x ~ scale * q with integer q in lo..hi (lo < 0 < hi). The scale is signed: the code range may be lopsided, and
// the largest value then belongs on its longer side. REQUIRES: n a multiple of 4, <= kMaxGroup.
Fit fit_symmetric(const float* x, const float* w, int n, int lo, int hi);

// Best x ~ scale * q + offset with q in 0..hi and scale >= 0; with `offset_below_zero`, offset <= 0 as the K types
// need.
Fit fit_affine(const float* x, const float* w, int n, int hi, bool offset_below_zero);

// Weights of a row's stretch of n values: importance (1 where absent) times sqrt(mean square + x^2), so that large
// values, which carry most of a dot product, count more.
void search_weights(const float* x, const float* importance, int n, float* w);

}  // namespace loci::quant
