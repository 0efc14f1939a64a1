// Backend::rope against golden values and the oracle.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/backend.h"
#include "tests/support/oracle.h"

namespace loci {
namespace {

RopeAngles make_angles(const std::vector<int>& positions, int n_rot, double base) {
  RopeAngles angles;
  angles.n_rot = n_rot;
  for (const int position : positions) {
    for (int i = 0; i < n_rot / 2; ++i) {
      const double angle = position * std::pow(base, -2.0 * i / n_rot);
      angles.cos.push_back(static_cast<float>(std::cos(angle)));
      angles.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return angles;
}

TEST(Rope, GoldenValues) {
  const auto backend = make_cpu_backend({.n_threads = 1});
  const RopeAngles angles = make_angles({3}, 4, 10000);
  const float adjacent[] = {-0.989992f, 0.141120f, -0.029996f, 0.999550f};
  const float half_split[] = {-0.989992f, -0.029996f, 0.141120f, 0.999550f};
  std::vector<float> x{1, 0, 0, 1};
  backend->rope(x.data(), 4, 1, 1, 4, angles, RopePairing::kAdjacent);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(x[i], adjacent[i], 1e-6f);
  x = {1, 0, 0, 1};
  backend->rope(x.data(), 4, 1, 1, 4, angles, RopePairing::kHalfSplit);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(x[i], half_split[i], 1e-6f);
}

TEST(Rope, MatchesTheOracleForRowsHeadsAndPartialRotation) {
  const auto backend = make_cpu_backend({.n_threads = 2});
  const std::vector<int> positions{0, 1, 5, 1000, 32767, 2};
  const int n_rows = static_cast<int>(positions.size());
  for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalfSplit}) {
    for (const auto& [head_dim, n_rot] : std::vector<std::pair<int, int>>{
             {4, 4}, {64, 64}, {64, 32}, {80, 20}, {96, 96}, {128, 128}, {256, 64}, {12, 0}}) {
      const int n_heads = 3, stride = n_heads * head_dim + 5;
      const std::vector<float> x = oracle::normal(n_rows * stride, 1);
      std::vector<float> out = x;
      backend->rope(out.data(), stride, n_rows, n_heads, head_dim, make_angles(positions, n_rot, 10000), pairing);
      for (int row = 0; row < n_rows; ++row) {
        for (int head = 0; head < n_heads; ++head) {
          const int begin = row * stride + head * head_dim;
          const std::vector<double> truth = oracle::rope<double>(std::span(x).subspan(begin, head_dim), n_rot, 10000,
                                                                 positions[row], pairing == RopePairing::kAdjacent);
          for (int d = 0; d < head_dim; ++d) {
            ASSERT_NEAR(out[begin + d], truth[d], 2e-6)
                << "head dim " << head_dim << ", n_rot " << n_rot << ", d " << d;
            if (d >= n_rot) {
              ASSERT_EQ(out[begin + d], x[begin + d]);
            }
          }
        }
        for (int d = n_heads * head_dim; d < stride; ++d) ASSERT_EQ(out[row * stride + d], x[row * stride + d]);
      }
    }
  }
}

}  // namespace
}  // namespace loci
