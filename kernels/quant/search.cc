#include "kernels/quant/search.h"

#include "kernels/check.h"

namespace loci::quant {
namespace {

// Least-squares scale for fixed codes; offset 0.
Fit solve_scale(const float* x, const float* w, int n, const float* q) {
  const float xq = lane_sum(n, [&](int i) { return w[i] * x[i] * q[i]; });
  const float qq = lane_sum(n, [&](int i) { return w[i] * q[i] * q[i]; });
  Fit fit;
  fit.scale = qq > 0.0f ? xq / qq : 0.0f;
  fit.error = weighted_error(x, w, n, fit.scale, 0.0f, q);
  return fit;
}

// Least-squares scale and offset for fixed codes.
Fit solve_affine(const float* x, const float* w, int n, const float* q, bool offset_below_zero) {
  const float s = lane_sum(n, [&](int i) { return w[i]; });
  const float sx = lane_sum(n, [&](int i) { return w[i] * x[i]; });
  const float sq = lane_sum(n, [&](int i) { return w[i] * q[i]; });
  const float sqq = lane_sum(n, [&](int i) { return w[i] * q[i] * q[i]; });
  const float sxq = lane_sum(n, [&](int i) { return w[i] * x[i] * q[i]; });
  const float determinant = s * sqq - sq * sq;
  Fit fit;
  if (determinant > 0.0f) {
    fit.scale = (s * sxq - sx * sq) / determinant;
    fit.offset = (sqq * sx - sq * sxq) / determinant;
  } else {
    fit.offset = s > 0.0f ? sx / s : 0.0f;
  }
  if (offset_below_zero && fit.offset > 0.0f) {
    fit.offset = 0.0f;
    fit.scale = sqq > 0.0f ? sxq / sqq : 0.0f;
  }
  fit.scale = std::max(fit.scale, 0.0f);
  fit.error = weighted_error(x, w, n, fit.scale, fit.offset, q);
  return fit;
}

constexpr int kRefinements = 4;  // alternations of codes and fit; the error falls each time or the loop ends

}  // namespace

Fit fit_symmetric(const float* x, const float* w, int n, int lo, int hi) {
  LOCI_DCHECK(n % 4 == 0 && n <= kMaxGroup && lo < 0 && hi > 0);
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) largest = std::abs(x[i]) > std::abs(largest) ? x[i] : largest;
  Fit best;
  best.error = weighted_error(x, w, n, 0.0f, 0.0f, x);
  if (largest == 0.0f) return best;

  float q[kMaxGroup];
  const float ends[2] = {static_cast<float>(lo), static_cast<float>(hi)};
  for (const float end : ends) {
    if (end == ends[1] && -lo == hi) break;  // mirror images
    for (int step = -9; step <= 9; ++step) {
      const float divisor = end + (end > 0 ? 0.1f : -0.1f) * static_cast<float>(step);
      if (divisor == 0.0f) continue;
      nearest_codes(x, n, largest / divisor, 0.0f, static_cast<float>(lo), static_cast<float>(hi), q);
      const Fit fit = solve_scale(x, w, n, q);
      if (fit.error < best.error) best = fit;
    }
  }
  for (int round = 0; round < kRefinements; ++round) {
    nearest_codes(x, n, best.scale, 0.0f, static_cast<float>(lo), static_cast<float>(hi), q);
    const Fit fit = solve_scale(x, w, n, q);
    if (!(fit.error < best.error)) break;
    best = fit;
  }
  return best;
}

Fit fit_affine(const float* x, const float* w, int n, int hi, bool offset_below_zero) {
  LOCI_DCHECK(n % 4 == 0 && n <= kMaxGroup && hi > 0);
  float low = *std::min_element(x, x + n);
  const float high = *std::max_element(x, x + n);
  if (offset_below_zero) low = std::min(low, 0.0f);
  Fit best;
  best.offset = low;
  float q[kMaxGroup] = {};
  best.error = weighted_error(x, w, n, 0.0f, low, q);
  if (!(high > low)) return best;

  const float codes = static_cast<float>(hi);
  for (int step = -10; step <= 9; ++step) {
    const float divisor = codes + 0.1f * static_cast<float>(step);
    if (divisor <= 0.0f) continue;
    nearest_codes(x, n, (high - low) / divisor, low, 0.0f, codes, q);
    const Fit fit = solve_affine(x, w, n, q, offset_below_zero);
    if (fit.error < best.error) best = fit;
  }
  for (int round = 0; round < kRefinements; ++round) {
    nearest_codes(x, n, best.scale, best.offset, 0.0f, codes, q);
    const Fit fit = solve_affine(x, w, n, q, offset_below_zero);
    if (!(fit.error < best.error)) break;
    best = fit;
  }
  return best;
}

void search_weights(const float* x, const float* importance, int n, float* w) {
  double square = 0.0;
  for (int i = 0; i < n; ++i) square += static_cast<double>(x[i]) * x[i];
  const float mean = static_cast<float>(square / n);
  for (int i = 0; i < n; ++i) {
    w[i] = (importance != nullptr ? importance[i] : 1.0f) * std::sqrt(mean + x[i] * x[i]);
  }
}

}  // namespace loci::quant
