#include "kernels/cpu/roofline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/isa.h"

namespace loci::cpu {
namespace {

TEST(Roofline, MeasuresEveryCeiling) {
  const Roofline roofline = measure_roofline(2);
  EXPECT_EQ(roofline.isa, choose_kernels().name);
  EXPECT_EQ(roofline.n_threads, 2);
  for (const double rate : {roofline.read_bytes, roofline.int8_macs, roofline.f32_macs}) {
    EXPECT_GT(rate, 0);
    EXPECT_TRUE(std::isfinite(rate));
  }
  EXPECT_GE(roofline.bf16_macs, 0);
}

}  // namespace
}  // namespace loci::cpu
