// exp and log in plain double arithmetic, for the sampler. The C library picks other code for other CPUs (with and
// without fused multiply-add), so that its last bit, and with it a sampled token, may differ between machines; these do
// not. Error below 2 units in the last place, which tests/sampling checks against the C library.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace loci::plain {

// e^x for x <= 709; below -708 the result is 0 (no denormals). NaN gives NaN or 0: callers have dropped NaN before.
inline double exp(double x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound = 0x1.8p52;  // adding and taking it away rounds to an integer
  const double clamped = x > -708.0 ? (x < 709.0 ? x : 709.0) : -708.0;
  const double shifted = clamped * kLog2E + kRound;
  const double k = shifted - kRound;
  const double r = (clamped - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 1.0 / 6227020800.0;                          // Taylor series to r^13
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  // The low bits of `shifted` hold k: move them into the exponent field.
  const double scale = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  return x > -708.0 ? sum * scale : 0.0;
}

// Natural logarithm; log(0) is -inf, a negative number gives NaN.
inline double log(double x) {
  if (!(x > 0)) return x == 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return x;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752440) m *= 2, --exponent;
  const double t = (m - 1) / (m + 1), t2 = t * t;  // log(m) = 2 atanh(t), |t| < 0.172
  double sum = 0;
  for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * t2;
  return exponent * 6.93147180369123816490e-01 + (2 * t + (2 * t * sum + exponent * 1.90821492927058770002e-10));
}

// x^y for x >= 0. pow(0, 0) is 1.
inline double pow(double x, double y) {
  if (y == 0) return 1;
  return plain::exp(y * plain::log(x));
}

}  // namespace loci::plain
