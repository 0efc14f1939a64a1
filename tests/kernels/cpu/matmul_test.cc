// Matrix products of the CPU backend: panels, kernels and the partition, for every type and the forced ISA.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/repack.h"
#include "kernels/error.h"
#include "tests/kernels/cpu/random_weight.h"
#include "tests/kernels/cpu/slab_check.h"
#include "tests/support/oracle.h"

namespace loci::cpu {
namespace {

using test::random_weight;
using test::RandomWeight;
using test::weight_types;

std::unique_ptr<Backend> make(bool precise, int n_threads = 1) {
  return make_cpu_backend({.n_threads = n_threads, .n_threads_batch = n_threads, .precise = precise});
}

// Activations as they come: mostly of size one, some large, some exact zeros, one block of zeros.
std::vector<float> activations(int64_t n_rows, int64_t k, uint32_t seed) {
  std::vector<float> x = oracle::normal(static_cast<size_t>(n_rows * k), seed);
  for (size_t i = 0; i < x.size(); i += 37) x[i] *= 30.0f;
  for (size_t i = 0; i < x.size(); i += 11) x[i] = 0.0f;
  for (size_t i = 0; i < std::min<size_t>(32, x.size()); ++i) x[i] = 0.0f;
  return x;
}

int64_t k_unit(DType type) { return traits(type).block_elements; }

bool has_int8_kernel(DType type) {
  const auto panel = panel_type_of(type);
  return panel && *panel < kPanelF32;
}

std::vector<float> run_matmul(Backend& backend, const PackedWeight& weight, const std::vector<float>& x, int64_t n_rows,
                              const float* bias = nullptr, bool accumulate = false, float initial = NAN) {
  std::vector<float> out(static_cast<size_t>(n_rows * weight.rows()), initial);
  const MatmulOut target = {&weight, bias, out.data(), weight.rows(), accumulate};
  backend.matmul({&target, 1}, x.data(), weight.cols(), n_rows);
  return out;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0) << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

// Largest rounding error of an f32 sum of k products in blocks of 32: the products, the block sum, the sum of blocks.
double rounding_factor(int64_t k) { return FLT_EPSILON * (32.0 + static_cast<double>(k) / 32.0 + 4.0); }

class EveryType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, EveryType, ::testing::ValuesIn(weight_types()),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(EveryType, PanelsHoldTheDequantizedValues) {
  const DType type = GetParam();
  const auto panel_type = panel_type_of(type);
  if (!panel_type) GTEST_SKIP() << "no panel form";
  const int64_t k = 512;
  for (const int n_rows : {1, 5, 16}) {
    const RandomWeight w = random_weight(type, n_rows, k, 7);
    std::vector<uint8_t> panel(panel_bytes(*panel_type, k));
    const uint8_t* rows[kPanelRows];
    for (int r = 0; r < n_rows; ++r) rows[r] = reinterpret_cast<const uint8_t*>(w.view.row(r));
    repack_panel(*panel_type, rows, n_rows, k, panel.data());
    std::vector<float> out(static_cast<size_t>(kUnpackElements * kPanelRows));
    for (int64_t first = 0; first < k; first += kUnpackElements) {
      choose_kernels().matmul->panel_unpack[*panel_type](panel.data(), first, kUnpackElements, out.data());
      for (int64_t i = 0; i < kUnpackElements; ++i) {
        for (int r = 0; r < kPanelRows; ++r) {
          const float expected = r < n_rows ? w.values[static_cast<size_t>(r * k + first + i)] : 0.0f;
          const float found = out[static_cast<size_t>(i * kPanelRows + r)];
          ASSERT_TRUE(r >= n_rows || found == expected) << "row " << r << " element " << first + i << ": " << found;
        }
      }
    }
  }
}

// Every tile size and block count: the same bits as the scalar twin, and each column the same as alone.
TEST_P(EveryType, Int8KernelEqualsScalar) {
  const DType type = GetParam();
  if (!has_int8_kernel(type)) GTEST_SKIP() << "no int8 kernel";
  const PanelType panel_type = *panel_type_of(type);
  const MatmulKernels& kernels = *choose_kernels().matmul;
  const MatmulKernels& scalar = *kernels_of("scalar").matmul;
  for (const int64_t k :
       {k_unit(type), 3 * k_unit(type), std::max<int64_t>(k_unit(type), 288 / k_unit(type) * k_unit(type))}) {
    const RandomWeight w = random_weight(type, kPanelRows, k, static_cast<uint32_t>(k));
    std::vector<uint8_t> panel(panel_bytes(panel_type, k));
    const uint8_t* rows[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) rows[r] = reinterpret_cast<const uint8_t*>(w.view.row(r));
    repack_panel(panel_type, rows, kPanelRows, k, panel.data());
    const std::vector<float> x = activations(kMaxTileTokens, k, 3);
    const int64_t n_blocks = k / kBlock;
    std::vector<float> alone;
    for (int t = 0; t < kMaxTileTokens; ++t) {
      std::vector<uint8_t> tile(static_cast<size_t>(n_blocks * kTileBytes));
      scalar.quantize_tile(x.data() + t * k, k, 1, 1, 0, n_blocks, tile.data());
      float out[kPanelRows];
      scalar.panel_int8[panel_type](panel.data(), n_blocks, tile.data(), 1, 0, out);
      alone.insert(alone.end(), out, out + kPanelRows);
    }
    for (int n = 1; n <= kMaxTileTokens; ++n) {
      const int size = tile_tokens_for(n);
      std::vector<uint8_t> tile(static_cast<size_t>(n_blocks * kTileBytes * size), 0xee);
      std::vector<uint8_t> scalar_tile(tile.size(), 0xdd);
      kernels.quantize_tile(x.data(), k, n, size, 0, n_blocks, tile.data());
      scalar.quantize_tile(x.data(), k, n, size, 0, n_blocks, scalar_tile.data());
      ASSERT_EQ(tile, scalar_tile) << "tile of " << n << ", k " << k;
      std::vector<float> out(static_cast<size_t>(size * kPanelRows), NAN);
      kernels.panel_int8[panel_type](panel.data(), n_blocks, tile.data(), size, 256, out.data());
      out.resize(static_cast<size_t>(n * kPanelRows));
      expect_same_bits(out, {alone.begin(), alone.begin() + n * kPanelRows}, str("tile of ", n, ", k ", k));
    }
  }
}

// Sums that reach the ends of their range: codes of all ones or all zeros times +-127, in every pairing of signs.
TEST_P(EveryType, Int8KernelEqualsScalarAtTheExtremes) {
  const DType type = GetParam();
  if (!has_int8_kernel(type)) GTEST_SKIP() << "no int8 kernel";
  const PanelType panel_type = *panel_type_of(type);
  const MatmulKernels& kernels = *choose_kernels().matmul;
  const MatmulKernels& scalar = *kernels_of("scalar").matmul;
  const int bits[] = {4, 4, 5, 5, 8, 4, 4, 2, 3, 4, 5, 6};  // per code, in the order of PanelType
  const int64_t k = k_unit(type), n_blocks = k / kBlock;
  const size_t code_bytes = static_cast<size_t>(bits[panel_type] * kPanelRows * k / 8);
  const RandomWeight w = random_weight(type, kPanelRows, k, 71);
  const uint8_t* rows[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) rows[r] = reinterpret_cast<const uint8_t*>(w.view.row(r));
  std::vector<float> x(static_cast<size_t>(kMaxTileTokens * k));
  for (int64_t t = 0; t < kMaxTileTokens; ++t) {  // signs by the bits of t, four elements at a time
    for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(t * k + i)] = (t >> (i % 4) & 1) != 0 ? -1.0f : 1.0f;
  }
  std::vector<uint8_t> tile(static_cast<size_t>(n_blocks * kTileBytes * kMaxTileTokens));
  scalar.quantize_tile(x.data(), k, kMaxTileTokens, kMaxTileTokens, 0, n_blocks, tile.data());
  for (const int fill : {0x00, 0xff, 0x0f, 0xf0, 0x33}) {
    std::vector<uint8_t> panel(panel_bytes(panel_type, k));
    repack_panel(panel_type, rows, kPanelRows, k, panel.data());
    std::fill(panel.end() - static_cast<std::ptrdiff_t>(code_bytes), panel.end(), static_cast<uint8_t>(fill));
    std::vector<float> expected(kMaxTileTokens * kPanelRows), out(expected.size());
    scalar.panel_int8[panel_type](panel.data(), n_blocks, tile.data(), kMaxTileTokens, 0, expected.data());
    kernels.panel_int8[panel_type](panel.data(), n_blocks, tile.data(), kMaxTileTokens, 0, out.data());
    expect_same_bits(out, expected, str("panel of ", fill));
    expect_same_bits(test::run_slabs(kernels, panel_type, panel, n_blocks, n_blocks, tile, kMaxTileTokens), expected,
                     str("slab of ", fill));
  }
}

TEST_P(EveryType, PreciseIsWithinRounding) {
  const DType type = GetParam();
  const auto backend = make(true);
  for (const int64_t n : {1, 15, 16, 17, 40}) {
    for (const int64_t k : {k_unit(type), 5 * k_unit(type), std::max<int64_t>(1024, k_unit(type))}) {
      const RandomWeight w = random_weight(type, n, k, static_cast<uint32_t>(n + k));
      const auto packed = backend->prepare(w.view);
      EXPECT_EQ(packed->rows(), n);
      EXPECT_EQ(packed->cols(), k);
      for (const int64_t n_rows : {1, 3, 9, 17}) {
        const std::vector<float> x = activations(n_rows, k, 5);
        const std::vector<float> out = run_matmul(*backend, *packed, x, n_rows);
        const auto expected = oracle::matmul<double>(x, w.values, {}, n_rows, n, k);
        const auto magnitude = oracle::matmul_magnitude(x, w.values, n_rows, n, k);
        for (size_t i = 0; i < out.size(); ++i) {
          const double bound = rounding_factor(k) * magnitude[i] + 1e-38;
          ASSERT_LE(std::fabs(out[i] - expected[i]), bound) << "n " << n << " k " << k << " rows " << n_rows << " at "
                                                            << i << ": " << out[i] << " for " << expected[i];
        }
      }
    }
  }
}

// The default mode's error: half a step of each block's activation scale, plus rounding.
TEST_P(EveryType, DefaultIsWithinActivationQuantization) {
  const DType type = GetParam();
  const auto backend = make(false);
  const int64_t n = 33, k = std::max<int64_t>(512, k_unit(type)), n_rows = 5;
  const RandomWeight w = random_weight(type, n, k, 11);
  const auto packed = backend->prepare(w.view);
  const std::vector<float> x = activations(n_rows, k, 13);
  const std::vector<float> out = run_matmul(*backend, *packed, x, n_rows);
  const auto expected = oracle::matmul<double>(x, w.values, {}, n_rows, n, k);
  const auto magnitude = oracle::matmul_magnitude(x, w.values, n_rows, n, k);
  for (int64_t t = 0; t < n_rows; ++t) {
    for (int64_t r = 0; r < n; ++r) {
      // The integer path sums the offset and minimum parts apart from the codes: their magnitude is that of the
      // largest value of the block times the activations, which `slack` covers.
      double quantization = 0, slack = 0;
      for (int64_t first = 0; has_int8_kernel(type) && first < k; first += kBlock) {
        float amax = 0;
        double weights = 0, largest = 0, inputs = 0;
        for (int64_t i = first; i < first + kBlock; ++i) {
          amax = std::max(amax, std::fabs(x[static_cast<size_t>(t * k + i)]));
          inputs += std::fabs(x[static_cast<size_t>(t * k + i)]);
          weights += std::fabs(w.values[static_cast<size_t>(r * k + i)]);
          largest = std::max<double>(largest, std::fabs(w.values[static_cast<size_t>(r * k + i)]));
        }
        quantization += weights * amax / 127.0 * 0.5001;
        slack += 4 * largest * inputs;
      }
      const size_t i = static_cast<size_t>(t * n + r);
      const double bound = quantization + rounding_factor(k) * (magnitude[i] + slack) + 1e-38;
      ASSERT_LE(std::fabs(out[i] - expected[i]), bound)
          << "token " << t << " row " << r << ": " << out[i] << " for " << expected[i];
    }
  }
}

// Promise 1: neither the other rows, nor the cut into calls, nor the threads change a bit; nor does the ISA.
TEST_P(EveryType, SameBitsForEveryBatchAndThreadCount) {
  const DType type = GetParam();
  const int64_t n = 50, k = std::max<int64_t>(512, k_unit(type)), n_rows = 150;
  const RandomWeight w = random_weight(type, n, k, 17);
  const std::vector<float> x = activations(n_rows, k, 19);
  for (const bool precise : {false, true}) {
    const auto backend = make(precise);
    const auto packed = backend->prepare(w.view);
    const std::vector<float> whole = run_matmul(*backend, *packed, x, n_rows);
    for (const int64_t step : {1, 2, 3, 7, 16, 33, 64}) {
      for (int64_t row = 0; row < std::min<int64_t>(n_rows, 70); row += step) {
        const int64_t count = std::min(step, n_rows - row);
        const std::vector<float> part(x.begin() + row * k, x.begin() + (row + count) * k);
        expect_same_bits(run_matmul(*backend, *packed, part, count),
                         {whole.begin() + row * n, whole.begin() + (row + count) * n},
                         str("rows from ", row, " by ", step));
      }
    }
    for (const int n_threads : {2, 3, 5}) {
      const auto threaded = make(precise, n_threads);
      const auto again = threaded->prepare(w.view);
      expect_same_bits(run_matmul(*threaded, *again, x, n_rows), whole, str(n_threads, " threads"));
    }
    // The f32 path has the same order on every ISA as well; the scalar twin is slow, so a few rows do.
    const char* forced = std::getenv("LOCI_ISA");
    const std::string saved = forced != nullptr ? forced : "";
    setenv("LOCI_ISA", "scalar", 1);
    const auto scalar = make(precise);
    forced == nullptr ? unsetenv("LOCI_ISA") : setenv("LOCI_ISA", saved.c_str(), 1);
    const auto twin = scalar->prepare(w.view);
    const std::vector<float> few(x.begin(), x.begin() + 3 * k);
    expect_same_bits(run_matmul(*scalar, *twin, few, 3), {whole.begin(), whole.begin() + 3 * n}, "scalar");
  }
}

TEST(Matmul, PlainTypesTakeAnyWidth) {
  const auto backend = make(false);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t k : {1, 31, 33, 257, 300}) {
      const RandomWeight w = random_weight(type, 19, k, 23);
      const auto packed = backend->prepare(w.view);
      const std::vector<float> x = activations(6, k, 29);
      const std::vector<float> out = run_matmul(*backend, *packed, x, 6);
      const auto expected = oracle::matmul<double>(x, w.values, {}, 6, 19, k);
      const auto magnitude = oracle::matmul_magnitude(x, w.values, 6, 19, k);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_LE(std::fabs(out[i] - expected[i]), rounding_factor(k) * magnitude[i] + 1e-38)
            << "k " << k << " at " << i;
      }
    }
  }
}

TEST(Matmul, SeveralOutputsWithBiasAndResidual) {
  const int64_t k = 512, n_rows = 21;
  const RandomWeight a = random_weight(DType::kQ4_K, 48, k, 1), b = random_weight(DType::kF16, 17, k, 2),
                     c = random_weight(DType::kIQ4_XS, 5, k, 3);
  const std::vector<float> bias = oracle::normal(17, 4);
  const std::vector<float> x = activations(n_rows, k, 5);
  for (const int n_threads : {1, 2, 4}) {
    const auto backend = make(false, n_threads);
    const auto pa = backend->prepare(a.view), pb = backend->prepare(b.view), pc = backend->prepare(c.view);
    const int64_t stride = 64;  // rows of the outputs lie apart; the gaps stay untouched
    std::vector<float> out_a(n_rows * stride, 7.0f), out_b(n_rows * stride, 7.0f), out_c(n_rows * stride, 7.0f);
    const MatmulOut outs[] = {{pa.get(), nullptr, out_a.data(), stride, true},
                              {pb.get(), bias.data(), out_b.data(), stride, false},
                              {pc.get(), nullptr, out_c.data(), stride, false}};
    backend->matmul(outs, x.data(), k, n_rows);
    const std::vector<float> plain_a = run_matmul(*backend, *pa, x, n_rows);
    const std::vector<float> plain_b = run_matmul(*backend, *pb, x, n_rows);
    const std::vector<float> plain_c = run_matmul(*backend, *pc, x, n_rows);
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t i = 0; i < stride; ++i) {
        const size_t at = static_cast<size_t>(r * stride + i);
        EXPECT_EQ(out_a[at], i < 48 ? plain_a[static_cast<size_t>(r * 48 + i)] + 7.0f : 7.0f);
        EXPECT_EQ(out_b[at], i < 17 ? plain_b[static_cast<size_t>(r * 17 + i)] + bias[static_cast<size_t>(i)] : 7.0f);
        EXPECT_EQ(out_c[at], i < 5 ? plain_c[static_cast<size_t>(r * 5 + i)] : 7.0f);
      }
    }
  }
}

TEST(Matmul, GroupsOfOutputsAlone) {
  const int64_t k = 512, n = 70;
  for (const DType type : {DType::kQ8_0, DType::kQ4_K, DType::kF16, DType::kIQ4_XS}) {
    const RandomWeight w = random_weight(type, n, k, 1);
    for (const int n_threads : {1, 2}) {
      const auto backend = make(false, n_threads);
      const auto packed = backend->prepare(w.view);
      for (const int64_t n_rows : {1, 5, 21}) {
        const std::vector<float> x = activations(n_rows, k, 5);
        const std::vector<float> all = run_matmul(*backend, *packed, x, n_rows);
        for (const std::vector<int32_t>& groups : {std::vector<int32_t>{0}, {4}, {1, 2}, {0, 3, 4}, {0, 1, 2, 3, 4}}) {
          std::vector<float> out(static_cast<size_t>(n_rows * n), 7.0f);
          const MatmulOut first{.weight = packed.get(), .out = out.data(), .out_stride = n, .groups = groups};
          backend->matmul({&first, 1}, x.data(), k, n_rows);
          for (int64_t i = 0; i < n_rows * n; ++i) {
            const auto at = static_cast<size_t>(i);
            const bool wanted = std::find(groups.begin(), groups.end(), i % n / kOutputGroup) != groups.end();
            ASSERT_EQ(out[at], wanted ? all[at] : 7.0f) << name(type) << " at " << i;
          }
        }
      }
    }
  }
}

TEST(Matmul, GatedEqualsItsParts) {
  const int64_t k = 256, n = 41, n_rows = 19;
  for (const bool precise : {false, true}) {
    for (const DType up_type : {DType::kQ4_K, DType::kF16}) {
      const RandomWeight gate = random_weight(DType::kQ4_K, n, k, 31), up = random_weight(up_type, n, k, 37);
      const std::vector<float> x = activations(n_rows, k, 41);
      std::vector<float> first;
      for (const int n_threads : {1, 2, 3}) {
        const auto backend = make(precise, n_threads);
        const auto pg = backend->prepare(gate.view), pu = backend->prepare(up.view);
        const std::vector<float> g = run_matmul(*backend, *pg, x, n_rows), u = run_matmul(*backend, *pu, x, n_rows);
        for (const Activation act : {Activation::kSilu, Activation::kGeluTanh}) {
          std::vector<float> out(static_cast<size_t>(n * n_rows), NAN);
          backend->matmul_gated(*pg, *pu, act, x.data(), k, n_rows, out.data(), n);
          for (size_t i = 0; i < out.size(); ++i) {
            const double z = g[i];
            // 0.5 z (1 + tanh u) = z / (1 + e^-2u), without the cancellation.
            const double exponent =
                act == Activation::kSilu ? -z : -2 * std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
            const double activated = z / (1 + std::exp(exponent));
            // gelu: the argument of exp carries the rounding of a few products, times its own size.
            const double bound =
                (4e-7 + 3e-7 * std::min(90.0, std::fabs(z) * (1 + z * z))) * std::fabs(activated * u[i]);
            ASSERT_NEAR(out[i], activated * u[i], bound + 3e-37 * std::fabs(u[i])) << "gate " << g[i] << " up " << u[i];
          }
          if (act != Activation::kSilu) continue;
          if (first.empty()) first = out;
          if (n_threads > 1) expect_same_bits(out, first, str(n_threads, " threads"));
          if (n_threads == 3) first.clear();
        }
      }
    }
  }
}

TEST(Matmul, NonFiniteActivationsReachEveryOutput) {
  for (const DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ8_0, DType::kF16}) {
    for (const bool precise : {false, true}) {
      const auto backend = make(precise);
      const RandomWeight w = random_weight(type, 16, 256, 43);
      const auto packed = backend->prepare(w.view);
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> x = oracle::normal(2 * 256, 47);
        x[100] = bad;
        const std::vector<float> out = run_matmul(*backend, *packed, x, 2);
        for (size_t i = 0; i < 16; ++i) EXPECT_FALSE(std::isfinite(out[i])) << name(type) << " at " << i;
        for (size_t i = 16; i < 32; ++i) EXPECT_TRUE(std::isfinite(out[i])) << name(type) << " at " << i;
      }
    }
  }
}

TEST(Matmul, ExtremeActivationsStayFinite) {
  const auto backend = make(false);
  const RandomWeight w = random_weight(DType::kQ4_0, 16, 64, 53);
  const auto packed = backend->prepare(w.view);
  for (const float size : {1e-45f, 1e-38f, 1e-30f, 1e30f}) {
    std::vector<float> x = oracle::normal(64, 59);
    for (float& value : x) value *= size;
    for (const float value : run_matmul(*backend, *packed, x, 1)) EXPECT_TRUE(std::isfinite(value)) << size;
  }
}

TEST(QuantizeTile, CodesAreTheNearest) {
  const MatmulKernels& kernels = *choose_kernels().matmul;
  const std::vector<float> x = activations(3, 96, 61);
  const int size = 4;
  std::vector<uint8_t> tile(3 * kTileBytes * size);
  kernels.quantize_tile(x.data(), 96, 3, size, 0, 3, tile.data());
  for (int block = 0; block < 3; ++block) {
    const uint8_t* base = tile.data() + block * kTileBytes * size;
    for (int t = 0; t < size; ++t) {
      float d = 0, s = 0;
      int32_t n = 0, n0 = 0, n1 = 0;
      std::memcpy(&d, base + 32 * size + 4 * t, 4);
      std::memcpy(&s, base + 36 * size + 4 * t, 4);
      std::memcpy(&n, base + 40 * size + 4 * t, 4);
      std::memcpy(&n0, base + 44 * size + 4 * t, 4);
      std::memcpy(&n1, base + 48 * size + 4 * t, 4);
      int16_t pairs[3][2] = {};
      for (int part = 0; part < 3; ++part) std::memcpy(pairs[part], base + (52 + 4 * part) * size + 4 * t, 4);
      int sum[2] = {}, pair_sum[2][2] = {};
      for (int i = 0; i < kBlock; ++i) {
        const int code = reinterpret_cast<const int8_t*>(base)[t * kBlock + i];
        sum[i / 16] += code;
        pair_sum[i / 16][i / 2 % 2] += code;
        const float value = t < 3 ? x[static_cast<size_t>(t * 96 + block * kBlock + i)] : 0.0f;
        EXPECT_LE(std::fabs(value - d * static_cast<float>(code)), d * 0.50001f) << "block " << block << " token " << t;
        EXPECT_LE(std::abs(code), 127);
      }
      EXPECT_EQ(n0, -128 * sum[0]);
      EXPECT_EQ(n1, -128 * sum[1]);
      EXPECT_EQ(n, n0 + n1);
      EXPECT_EQ(s, d * static_cast<float>(sum[0] + sum[1]));
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(pairs[0][i], -pair_sum[0][i] - pair_sum[1][i]);
        EXPECT_EQ(pairs[1][i], -pair_sum[0][i]);
        EXPECT_EQ(pairs[2][i], -pair_sum[1][i]);
      }
    }
  }
}

TEST(Prepare, RefusesWhatItCannotCompute) {
  const auto backend = make(false);
  TensorView view = {nullptr, DType::kIQ2_XXS, {256, 16, 1, 1}, "blk.0.attn_q.weight"};
  try {
    (void)backend->prepare(view);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("blk.0.attn_q.weight"), std::string::npos) << error.what();
  }
  view.type = DType::kQ4_K;
  view.ne = {100, 16, 1, 1};
  EXPECT_THROW((void)backend->prepare(view), Error);
}

TEST(Prepare, SaysWhatItHolds) {
  const auto backend = make(false);
  const RandomWeight q4 = random_weight(DType::kQ4_0, 20, 64, 67), xs = random_weight(DType::kIQ4_XS, 20, 256, 71);
  const auto packed = backend->prepare(q4.view), viewed = backend->prepare(xs.view);
  EXPECT_EQ(packed->bytes(), 2u * 2 * 288);
  EXPECT_FALSE(packed->reads_source());
  EXPECT_EQ(viewed->bytes(), 0u);
  EXPECT_TRUE(viewed->reads_source());
}

TEST(Embed, DequantizesAndScales) {
  const auto backend = make(false, 2);
  for (const DType type : {DType::kQ8_0, DType::kQ6_K, DType::kF16, DType::kF32}) {
    const RandomWeight table = random_weight(type, 50, 256, 73);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 70; ++i) ids.push_back(i * 7 % 50);
    std::vector<float> out(ids.size() * 300, -1.0f);
    backend->embed(table.view, ids, 2.5f, out.data(), 300);
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t i = 0; i < 256; ++i) {
        ASSERT_EQ(out[r * 300 + i], table.values[static_cast<size_t>(ids[r]) * 256 + i] * 2.5f);
      }
      ASSERT_EQ(out[r * 300 + 256], -1.0f);
    }
  }
}

// Tied models read embedding rows out of the output head's panels: not one bit may differ from the file's rows.
TEST(Embed, ReadsThePackedFormBitForBit) {
  const auto backend = make(false, 2);
  for (const DType type : test::weight_types()) {
    for (const int64_t dim : {int64_t{256}, int64_t{1280}}) {  // 1280: more than is restored at a time
      const RandomWeight table = random_weight(type, 35, dim, 79);
      const auto packed = backend->prepare(table.view);
      std::vector<int32_t> ids;
      for (int32_t i = 0; i < 70; ++i) ids.push_back(i * 11 % 35);
      const auto width = static_cast<size_t>(dim);
      std::vector<float> expected(ids.size() * width), out(expected.size());
      for (const float scale : {1.0f, 2.5f}) {
        backend->embed(table.view, ids, scale, expected.data(), dim);
        backend->embed(*packed, ids, scale, out.data(), dim);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0) << name(type) << ' ' << dim;
      }
    }
  }
}

TEST(Prepare, TellsOnceWhatItHasRead) {
  const auto backend = make(false, 3);
  for (const int64_t n : {int64_t{5}, int64_t{6000}}) {  // 2.5 MB for each thread
    const RandomWeight w = random_weight(DType::kF16, n, 640, 83);
    std::mutex mutex;
    std::vector<int> told(w.bytes.size(), 0);
    size_t longest = 0;
    (void)backend->prepare(w.view, [&](std::span<const std::byte> bytes) {
      const std::lock_guard lock(mutex);
      longest = std::max(longest, bytes.size());
      for (const std::byte& byte : bytes) ++told[static_cast<size_t>(&byte - w.bytes.data())];
    });
    EXPECT_EQ(std::count(told.begin(), told.end(), 1), static_cast<int64_t>(told.size()));
    EXPECT_LE(longest, static_cast<size_t>(kReadPiece) + 16 * 640 * 2);
  }
}

TEST(Allocate, IsZeroedAlignedAndHonest) {
  const auto backend = make(false);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, (size_t{2} << 20) + 1}) {
    const auto memory = backend->allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.get()[i], std::byte{0});
    if (bytes > 0) std::memset(memory.get(), 1, bytes);
  }
  for (const size_t bytes : {size_t{1} << 50, std::numeric_limits<size_t>::max()}) {
    try {
      (void)backend->allocate(bytes);
      FAIL() << "accepted " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace loci::cpu
