// The tile arithmetic of AMX in plain C++ (amx_tile.h), so that it is checked on every machine. Where the CPU has AMX,
// cpu_matmul_test.amx runs the instructions themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/amx_kernels.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/repack.h"
#include "tests/kernels/cpu/random_weight.h"
#include "tests/kernels/cpu/slab_check.h"
#include "tests/support/oracle.h"

namespace loci::cpu {
namespace {

class EmulatedAmx : public ::testing::TestWithParam<DType> {
 protected:
  EmulatedAmx() { amx_emulated::kAmx.replace_slabs(amx_); }

  const MatmulKernels& scalar_ = *kernels_of("scalar").matmul;
  MatmulKernels amx_ = scalar_;
};
INSTANTIATE_TEST_SUITE_P(Types, EmulatedAmx,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kIQ4_NL, DType::kMXFP4, DType::kQ4_K, DType::kQ5_K),
                         [](const auto& tested) { return std::string(name(tested.param)); });

std::vector<uint8_t> random_panel(DType type, int64_t k, uint32_t seed) {
  const auto w = test::random_weight(type, kPanelRows, k, seed);
  const uint8_t* rows[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) rows[r] = reinterpret_cast<const uint8_t*>(w.view.row(r));
  std::vector<uint8_t> panel(panel_bytes(*panel_type_of(type), k));
  repack_panel(*panel_type_of(type), rows, kPanelRows, k, panel.data());
  return panel;
}

// Every tile size, odd and even numbers of blocks: bit for bit the panel kernel's result.
TEST_P(EmulatedAmx, EqualsScalar) {
  const PanelType type = *panel_type_of(GetParam());
  ASSERT_NE(amx_.slab_int8[type], scalar_.slab_int8[type]);
  const int64_t unit = traits(GetParam()).block_elements;
  for (const int64_t k : {unit, 2 * unit, 5 * unit}) {
    const int64_t n_blocks = k / kBlock;
    const std::vector<uint8_t> panel = random_panel(GetParam(), k, static_cast<uint32_t>(k));
    std::vector<float> x = oracle::normal(static_cast<size_t>(kMaxTileTokens * k), 3);
    for (size_t i = 0; i < x.size(); i += 37) x[i] *= 30.0f;
    for (int n = amx_.slab_min_tile_tokens[type]; n <= kMaxTileTokens; ++n) {
      const int size = tile_tokens_for(n);
      std::vector<uint8_t> tile(static_cast<size_t>(n_blocks * kTileBytes * size));
      scalar_.quantize_tile(x.data(), k, n, size, 0, n_blocks, tile.data());
      std::vector<float> expected(static_cast<size_t>(size * kPanelRows));
      scalar_.panel_int8[type](panel.data(), n_blocks, tile.data(), size, 0, expected.data());
      for (const int64_t step : {unit / kBlock, 3 * unit / kBlock}) {
        const std::vector<float> found = test::run_slabs(amx_, type, panel, n_blocks, step, tile, size);
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)), 0)
            << n << " tokens, k " << k << ", slabs of " << step;
      }
    }
  }
}

// Codes at both ends of their range.
TEST_P(EmulatedAmx, EqualsScalarAtTheExtremes) {
  const PanelType type = *panel_type_of(GetParam());
  const int64_t k = traits(GetParam()).block_elements, n_blocks = k / kBlock;
  std::vector<float> x(static_cast<size_t>(kMaxTileTokens * k));
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i / static_cast<size_t>(k) >> (i % 4) & 1) != 0 ? -1.0f : 1.0f;
  std::vector<uint8_t> tile(static_cast<size_t>(n_blocks * kTileBytes * kMaxTileTokens));
  scalar_.quantize_tile(x.data(), k, kMaxTileTokens, kMaxTileTokens, 0, n_blocks, tile.data());
  for (const int fill : {0x00, 0xff, 0x0f, 0xf0}) {
    std::vector<uint8_t> panel = random_panel(GetParam(), k, 71);
    const auto half = static_cast<std::ptrdiff_t>(panel.size() / 2);  // codes only, in every type
    std::fill(panel.begin() + half, panel.end(), static_cast<uint8_t>(fill));
    std::vector<float> expected(kMaxTileTokens * kPanelRows);
    scalar_.panel_int8[type](panel.data(), n_blocks, tile.data(), kMaxTileTokens, 0, expected.data());
    const std::vector<float> found = test::run_slabs(amx_, type, panel, n_blocks, n_blocks, tile, kMaxTileTokens);
    ASSERT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)), 0) << "filled with " << fill;
  }
}

}  // namespace
}  // namespace loci::cpu
