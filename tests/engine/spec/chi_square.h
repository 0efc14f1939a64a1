// Chi-square test of counts against a distribution.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace loci::test {

// P(X >= x) for a chi-square variable: the regularized upper incomplete gamma function Q(dof / 2, x / 2), by series
// below the mean and by continued fraction above (Lentz).
inline double chi_square_tail(double x, int dof) {
  const double a = 0.5 * dof, z = 0.5 * x;
  if (z <= 0) return 1;
  const double front = std::exp(a * std::log(z) - z - std::lgamma(a));
  if (z < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 1000; ++n) sum += term *= z / (a + n);
    return 1 - front * sum;
  }
  double b = z + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 1000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
  }
  return front * h;
}

// p-value of `counts` under `probabilities`. Cells with an expectation below 5 are pooled; a count where the
// probability is 0 gives 0.
inline double chi_square_p(std::span<const int64_t> counts, std::span<const double> probabilities) {
  double n = 0, statistic = 0, pooled_expected = 0, pooled_count = 0;
  int cells = 0;
  for (const int64_t count : counts) n += static_cast<double>(count);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i], count = static_cast<double>(counts[i]);
    if (probabilities[i] <= 0 && count > 0) return 0;
    if (expected < 5) {
      pooled_expected += expected, pooled_count += count;
      continue;
    }
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  }
  if (pooled_expected > 0) {
    statistic += (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
    ++cells;
  }
  return chi_square_tail(statistic, cells - 1);
}

}  // namespace loci::test
