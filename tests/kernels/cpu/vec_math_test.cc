// exp, tanh, silu, gelu: errors against double, the same bits as the scalar twin, tails like whole vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/isa.h"

namespace loci::cpu {
namespace {

using Function = void (*)(const float*, float*, int64_t) noexcept;

std::vector<float> apply_to(Function function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function(x.data(), y.data(), static_cast<int64_t>(x.size()));
  return y;
}

// Evenly spaced values and, near zero, geometric ones of both signs.
std::vector<float> arguments(float low, float high) {
  std::vector<float> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(low + (high - low) * static_cast<float>(i) / 200000.0f);
  for (float value = 1e-30f; value < 1.0f; value *= 1.07f) x.push_back(value), x.push_back(-value);
  return x;
}

double worst_relative_error(const std::vector<float>& x, const std::vector<float>& y, double (*truth)(double)) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = truth(x[i]);
    if (std::fabs(expected) < 1.2e-38) continue;  // subnormal results have fewer bits
    worst = std::max(worst, std::fabs(y[i] - expected) / std::fabs(expected));
  }
  return worst;
}

TEST(VecMath, Exp) {
  const auto f = choose_kernels().matmul->vec_exp;
  const std::vector<float> x = arguments(-100.0f, 88.7f);
  EXPECT_LE(worst_relative_error(x, apply_to(f, x), [](double v) { return std::exp(v); }), 1.3e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = apply_to(f, {0.0f, -0.0f, infinity, -infinity, NAN, 89.0f, -104.5f, 1e30f, -1e30f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], infinity);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], infinity);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], infinity);
  EXPECT_EQ(y[8], 0.0f);
}

TEST(VecMath, Tanh) {
  const auto f = choose_kernels().matmul->vec_tanh;
  const std::vector<float> x = arguments(-12.0f, 12.0f);
  EXPECT_LE(worst_relative_error(x, apply_to(f, x), [](double v) { return std::tanh(v); }), 2.5e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = apply_to(f, {0.0f, infinity, -infinity, NAN, 50.0f, -50.0f});
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], -1.0f);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], -1.0f);
}

TEST(VecMath, Silu) {
  const auto f = choose_kernels().matmul->vec_silu;
  const std::vector<float> x = arguments(-80.0f, 80.0f);
  EXPECT_LE(worst_relative_error(x, apply_to(f, x), [](double v) { return v / (1 + std::exp(-v)); }), 2.5e-7);
  EXPECT_TRUE(std::isnan(apply_to(f, {NAN})[0]));
  EXPECT_LE(std::fabs(apply_to(f, {-1e4f})[0]), 1e-30f);
}

TEST(VecMath, GeluTanh) {
  const auto f = choose_kernels().matmul->vec_gelu_tanh;
  const auto truth = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  // Left of -1 the exponent's own rounding is amplified by its size; the value is then tiny beside the input.
  const std::vector<float> right = arguments(-1.0f, 30.0f);
  EXPECT_LE(worst_relative_error(right, apply_to(f, right), truth), 5e-7);
  const std::vector<float> left = arguments(-10.0f, -1.0f);
  const std::vector<float> y = apply_to(f, left);
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(y[i], truth(left[i]), 2e-7 * std::fabs(left[i])) << left[i];
  EXPECT_TRUE(std::isnan(apply_to(f, {NAN})[0]));
  EXPECT_EQ(apply_to(f, {1e30f})[0], 1e30f);
  EXPECT_EQ(apply_to(f, {-1e30f})[0], 0.0f);
}

TEST(VecMath, SameBitsAsScalarInEveryLane) {
  const MatmulKernels& kernels = *choose_kernels().matmul;
  const MatmulKernels& scalar = *kernels_of("scalar").matmul;
  std::vector<float> x = arguments(-110.0f, 95.0f);
  x.push_back(std::numeric_limits<float>::infinity());
  for (const auto function :
       {&MatmulKernels::vec_exp, &MatmulKernels::vec_tanh, &MatmulKernels::vec_silu, &MatmulKernels::vec_gelu_tanh}) {
    const std::vector<float> expected = apply_to(scalar.*function, x);
    for (size_t shift = 0; shift < 17; ++shift) {  // every value passes every lane, and tails of every length
      const std::vector<float> part(x.begin() + static_cast<std::ptrdiff_t>(shift), x.end());
      const std::vector<float> y = apply_to(kernels.*function, part);
      ASSERT_EQ(std::memcmp(y.data(), expected.data() + shift, y.size() * sizeof(float)), 0) << "shift " << shift;
    }
  }
}

}  // namespace
}  // namespace loci::cpu
