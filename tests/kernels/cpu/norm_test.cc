// rms_norm, add and softcap against the oracle; fixed order of summation on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "tests/support/oracle.h"

namespace loci {
namespace {

std::unique_ptr<Backend> backend_with(int n_threads) {
  CpuBackendConfig config;
  config.n_threads = config.n_threads_batch = n_threads;
  return make_cpu_backend(config);
}

TEST(RmsNorm, MatchesTheOracleAtAnyLength) {
  const auto backend = backend_with(2);
  for (const int dim : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 96, 128, 576, 640, 896, 1536, 2049}) {
    const std::vector<float> x = oracle::normal(dim, dim), weight = oracle::normal(dim, dim + 1);
    std::vector<float> out(dim);
    backend->rms_norm(x.data(), dim, weight.data(), 1e-6f, 1, 1, dim, out.data(), dim);
    const std::vector<double> truth = oracle::rms_norm<double>(x, weight, 1e-6);
    // Three roundings of the products and half of what the sum of squares has gathered over dim / 32 + 5 steps.
    const double bound = (4 + (dim / 32 + 5) / 2.0) * 0x1p-24;
    for (int i = 0; i < dim; ++i) {
      ASSERT_LE(std::abs(out[i] - truth[i]), bound * std::abs(truth[i])) << "dim " << dim << ", element " << i;
    }
  }
}

TEST(RmsNorm, GroupsRowsStridesAndInPlace) {
  const auto backend = backend_with(2);
  const int n_rows = 37, n_groups = 3, dim = 20, stride = 70;
  const std::vector<float> x = oracle::normal(n_rows * stride, 1), weight = oracle::normal(dim, 2);
  std::vector<float> out(n_rows * 64, -7.0f);
  backend->rms_norm(x.data(), stride, weight.data(), 1e-5f, n_rows, n_groups, dim, out.data(), 64);
  std::vector<float> in_place = x;
  backend->rms_norm(in_place.data(), stride, weight.data(), 1e-5f, n_rows, n_groups, dim, in_place.data(), stride);
  for (int row = 0; row < n_rows; ++row) {
    for (int group = 0; group < n_groups; ++group) {
      const std::vector<double> truth =
          oracle::rms_norm<double>(std::span(x).subspan(row * stride + group * dim, dim), weight, 1e-5);
      for (int i = 0; i < dim; ++i) {
        ASSERT_NEAR(out[row * 64 + group * dim + i], truth[i], 1e-6 * (1 + std::abs(truth[i])));
        ASSERT_EQ(out[row * 64 + group * dim + i], in_place[row * stride + group * dim + i]);
      }
    }
    for (int i = n_groups * dim; i < 64; ++i) ASSERT_EQ(out[row * 64 + i], -7.0f) << "outside the groups";
    for (int i = n_groups * dim; i < stride; ++i) ASSERT_EQ(in_place[row * stride + i], x[row * stride + i]);
  }
}

TEST(RmsNorm, ExtremeRows) {
  const auto backend = backend_with(1);
  const std::vector<float> weight(64, 1.0f);
  std::vector<float> x(64, 0.0f), out(64);
  backend->rms_norm(x.data(), 64, weight.data(), 1e-6f, 1, 1, 64, out.data(), 64);
  for (const float value : out) EXPECT_EQ(value, 0.0f);
  x.assign(64, 1e18f);
  backend->rms_norm(x.data(), 64, weight.data(), 1e-6f, 1, 1, 64, out.data(), 64);
  for (const float value : out) EXPECT_NEAR(value, 1.0f, 1e-6f);
  x[3] = NAN;
  backend->rms_norm(x.data(), 64, weight.data(), 1e-6f, 1, 1, 64, out.data(), 64);
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

TEST(Elementwise, AddAndSoftcap) {
  const auto backend = backend_with(2);
  for (const int dim : {1, 7, 16, 33, 576}) {
    const std::vector<float> x = oracle::normal(5 * dim, 1);
    std::vector<float> y = oracle::normal(5 * dim, 2);
    const std::vector<float> before = y;
    backend->add(y.data(), dim, x.data(), dim, 5, dim);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + x[i]);
  }
  std::vector<float> x = oracle::normal(50001, 3, 40.0f);
  x[0] = 1e30f, x[1] = -1e30f, x[2] = 0.0f, x[3] = 1e-20f;
  const std::vector<float> before = x;
  backend->softcap(x.data(), static_cast<int64_t>(x.size()), 30.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const double truth = 30.0 * std::tanh(before[i] / 30.0);
    ASSERT_LE(std::abs(x[i] - truth), 5e-7 * std::abs(truth)) << before[i];
  }
}

// The oracle in double says what is right; between instruction sets the bits are equal.
TEST(Elementwise, EveryInstructionSetGivesTheSameBits) {
  const std::vector<float> x = oracle::normal(1003, 1), weight = oracle::normal(1003, 2);
  std::vector<float> first_norm, first_softcap, first_rope;
  for (const std::string_view isa : cpu::available_isas()) {
    const cpu::AttentionKernels& kernels = *cpu::kernels_of(isa).attention;
    std::vector<float> norm(1003), softcap = x, rope = x;
    kernels.rms_norm_row(x.data(), weight.data(), 1e-5f, 1003, norm.data());
    kernels.softcap_row(softcap.data(), 1003, 0.7f);
    kernels.rope_half_split(rope.data(), weight.data(), weight.data() + 200, 90);
    kernels.rope_adjacent(rope.data() + 100, weight.data(), weight.data() + 200, 90);
    if (first_norm.empty()) {
      first_norm = norm, first_softcap = softcap, first_rope = rope;
    } else {
      EXPECT_EQ(first_norm, norm) << isa;
      EXPECT_EQ(first_softcap, softcap) << isa;
      EXPECT_EQ(first_rope, rope) << isa;
    }
  }
}

}  // namespace
}  // namespace loci
