// Block formats: golden values, conversions, and what every packer must keep to. scripts/check_quants.py compares the
// same functions with the PyPI package gguf; this file needs nothing but itself.
#include "kernels/quant/quant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/quant/quant_list.h"

namespace loci {
namespace {

std::vector<std::byte> lcg_bytes(uint32_t state, size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

void put_u16(std::vector<std::byte>& bytes, size_t at, uint16_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const float value : values) {
    const float positive_zero = value == 0.0f ? 0.0f : value;
    unsigned char bytes[sizeof(float)];
    std::memcpy(bytes, &positive_zero, sizeof(bytes));
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;
  }
  return hash;
}

std::vector<float> dequantized(DType type, const std::vector<std::byte>& blocks) {
  const auto n = static_cast<int64_t>(blocks.size()) / traits(type).block_bytes * traits(type).block_elements;
  std::vector<float> values(static_cast<size_t>(n));
  dequantize_row(type, blocks.data(), values.data(), n);
  return values;
}

std::vector<float> round_trip(DType type, const std::vector<float>& values, const float* importance = nullptr) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(type, n)));
  quantize_row(type, values.data(), blocks.data(), n, importance);
  return dequantized(type, blocks);
}

double rmse(const std::vector<float>& a, const std::vector<float>& b, size_t begin = 0, size_t end = SIZE_MAX) {
  double sum = 0;
  end = std::min(end, a.size());
  for (size_t i = begin; i < end; ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / static_cast<double>(end - begin));
}

std::vector<float> normal_values(size_t n, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

constexpr DType kPacked[] = {DType::kQ4_0,  DType::kQ4_1,  DType::kQ5_0,  DType::kQ5_1,   DType::kQ8_0,
                             DType::kQ2_K,  DType::kQ3_K,  DType::kQ4_K,  DType::kQ5_K,   DType::kQ6_K,
                             DType::kMXFP4, DType::kTQ1_0, DType::kTQ2_0, DType::kIQ4_NL, DType::kIQ4_XS};

// ---- golden values ----

// Eight blocks of LCG bytes with the scale fields set to fixed f16 values; expected: elements 1 and last, and the
// FNV-1a hash of all values' bits (-0 counted as +0). Computed with numpy: by the PyPI package gguf 0.17.1 where it has
// the type, else element by element from the layouts of docs/gguf.md.
struct Golden {
  DType type;
  float second, last;
  uint64_t hash;
  std::vector<size_t> scale_fields;
};

const Golden kGoldens[] = {
    {DType::kQ4_0, -0.34362793f, -0.193634033f, 0xb6b945afb8206772ull, {0}},
    {DType::kQ4_1, 0.401977539f, -0.115203857f, 0x1eab4ccb31e9d6fcull, {0, 2}},
    {DType::kQ5_0, -0.137451172f, 0.34854126f, 0x1c8def8baba547c2ull, {0}},
    {DType::kQ5_1, 0.883056641f, -0.425018311f, 0xa79cb246445c2167ull, {0, 2}},
    {DType::kQ8_0, -3.57373047f, 2.40106201f, 0xe60f0df271b23b5cull, {0}},
    {DType::kQ8_1, 0.34362793f, 1.7427063f, 0xe338f1267bbd7dd6ull, {0, 2}},
    {DType::kQ2_K, -1.73449516e-05f, 5.52490234f, 0x24e0da2e283c467cull, {80, 82}},
    {DType::kQ3_K, -1.16833496f, 1.62652588f, 0xc14cd9da39a79cbdull, {108}},
    {DType::kQ4_K, 20.5710449f, -25.1629944f, 0xcc028fc15c70881aull, {0, 2}},
    {DType::kQ5_K, 19.7216797f, -2.20742798f, 0x3f51589fb443c193ull, {0, 2}},
    {DType::kQ6_K, -0.0300761461f, -592.578125f, 0xe75650ebf8b37488ull, {208}},
    {DType::kQ8_K, 0.566157222f, 0.752421498f, 0x0ae3e82562a47bd3ull, {}},
    {DType::kIQ4_NL, 6.11657715f, 0.851989746f, 0x5a97332fdeaae03full, {0}},
    {DType::kIQ4_XS, 50.5133057f, 14.3676453f, 0xde704da1f736d77aull, {0}},
    {DType::kTQ1_0, -1.73449516e-05f, 0.500488281f, 0x2ca1e20bed50239bull, {52}},
    {DType::kTQ2_0, 0.0f, 0.0f, 0xf7f2d874c11a105cull, {64}},
    {DType::kMXFP4, 3.7252903e-09f, -8388608.0f, 0x8719e32e53e28eb7ull, {}},
    {DType::kNVFP4, -6.0f, 0.0f, 0x4a3d0381030fac74ull, {}},
    {DType::kQ1_0, 0.0687255859f, -0.0387268066f, 0x94ffb23df21754a5ull, {0}},
    {DType::kQ2_0, -0.0687255859f, -0.0774536133f, 0xbcb86433e923d208ull, {0}},
};

TEST(Dequantize, MatchesGoldenBlocks) {
  constexpr uint16_t kScales[6] = {0x2c66, 0xa8f5, 0x3555, 0x1400, 0x0123, 0xb801};
  for (const Golden& golden : kGoldens) {
    std::vector<std::byte> blocks;
    for (uint32_t i = 0; i < 8; ++i) {
      auto block = lcg_bytes(static_cast<uint32_t>(golden.type) * 1000 + i,
                             static_cast<size_t>(traits(golden.type).block_bytes));
      for (const size_t field : golden.scale_fields) put_u16(block, field, kScales[(i + field) % 6]);
      if (golden.type == DType::kQ8_K) put_u16(block, 2, static_cast<uint16_t>(0x3c00 + i));
      if (golden.type == DType::kMXFP4) block[0] = static_cast<std::byte>(100 + 7 * i);
      blocks.insert(blocks.end(), block.begin(), block.end());
    }
    const std::vector<float> values = dequantized(golden.type, blocks);
    EXPECT_EQ(values[1], golden.second) << name(golden.type);
    EXPECT_EQ(values.back(), golden.last) << name(golden.type);
    EXPECT_EQ(fnv1a(values), golden.hash) << name(golden.type);
  }
}

TEST(Dequantize, ReadsPlainTypes) {
  const auto check = [](DType type, auto value, float expected) {
    float out = 0;
    std::byte bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    dequantize_row(type, bytes, &out, 1);
    EXPECT_EQ(out, expected) << name(type);
  };
  check(DType::kF32, 0.1f, 0.1f);
  check(DType::kF64, 0.5, 0.5f);
  check(DType::kF16, uint16_t{0xc000}, -2.0f);
  check(DType::kBF16, uint16_t{0x4049}, 3.140625f);
  check(DType::kI8, int8_t{-7}, -7.0f);
  check(DType::kI16, int16_t{-300}, -300.0f);
  check(DType::kI32, int32_t{1 << 20}, 1048576.0f);
  check(DType::kI64, int64_t{-5}, -5.0f);
}

TEST(Dequantize, ReadsAnyAddress) {
  for (const Golden& golden : kGoldens) {
    auto block = lcg_bytes(3, static_cast<size_t>(traits(golden.type).block_bytes));
    const auto expected = dequantized(golden.type, block);
    block.insert(block.begin(), std::byte{0});
    std::vector<float> values(expected.size());
    dequantize_row(golden.type, block.data() + 1, values.data(), static_cast<int64_t>(values.size()));
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << name(golden.type);
  }
}

// ---- types ----

TEST(DType, TraitsAgreeWithTheBlockStructs) {
#define LOCI_CHECK_TRAITS(NAME)                                                                \
  EXPECT_EQ(traits(DType::k##NAME).name, #NAME);                                               \
  EXPECT_EQ(traits(DType::k##NAME).block_elements, quant::Block##NAME::kElements);             \
  EXPECT_EQ(traits(DType::k##NAME).block_bytes, int64_t{sizeof(quant::Block##NAME)}) << #NAME; \
  EXPECT_TRUE(traits(DType::k##NAME).can_dequantize);
  LOCI_QUANT_TYPES(LOCI_CHECK_TRAITS)
#undef LOCI_CHECK_TRAITS
}

TEST(DType, KnowsIdsAndNames) {
  for (const uint32_t id : {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000}) EXPECT_EQ(find_dtype(id), nullptr) << id;
  EXPECT_EQ(find_dtype(14)->name, "Q6_K");
  EXPECT_EQ(dtype_from_name("q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("bf16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("Q4_K_M"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
  EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 420);
  EXPECT_FALSE(traits(DType::kIQ2_XXS).can_dequantize);
  EXPECT_FALSE(can_quantize(DType::kIQ2_XXS));
  EXPECT_TRUE(can_quantize(DType::kF16));
  for (const DType type : kPacked) EXPECT_TRUE(can_quantize(type)) << name(type);
}

// ---- 16-bit floats ----

TEST(Half, EveryPatternSurvives) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if ((half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(f32_to_f16(value), half | 0x200);  // made quiet
    } else {
      EXPECT_EQ(f32_to_f16(value), half);
      const int exponent = (half >> 10) & 31;
      const double magnitude = exponent == 31  ? INFINITY
                               : exponent == 0 ? std::ldexp(half & 0x3ff, -24)
                                               : std::ldexp(1024 + (half & 0x3ff), exponent - 25);
      EXPECT_EQ(value, static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude));
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);      // tie, down to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02);    // tie, up to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x1.002p-11f), 0x3c01);  // just above the tie
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // tie with what would be 65536
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // tie with the smallest subnormal
  EXPECT_EQ(f32_to_f16(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1.8p-7f), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

// ---- packing ----

TEST(Quantize, ErrorOnNormalWeightsIsWithinTheType) {
  // Upper bounds for unit normal values: a little above what a good search reaches.
  const std::pair<DType, double> bounds[] = {
      {DType::kQ8_0, 0.0056},  {DType::kQ6_K, 0.0205},  {DType::kQ5_K, 0.035},  {DType::kQ5_1, 0.035},
      {DType::kQ5_0, 0.041},   {DType::kQ4_K, 0.072},   {DType::kQ4_1, 0.071},  {DType::kQ4_0, 0.083},
      {DType::kIQ4_NL, 0.077}, {DType::kIQ4_XS, 0.077}, {DType::kMXFP4, 0.115}, {DType::kQ3_K, 0.152},
      {DType::kQ2_K, 0.30},    {DType::kTQ1_0, 0.45},   {DType::kTQ2_0, 0.45},
  };
  const std::vector<float> values = normal_values(64 * 256, 1.0f);
  for (const auto& [type, bound] : bounds) {
    EXPECT_LT(rmse(round_trip(type, values), values), bound) << name(type);
  }
}

TEST(Quantize, SurvivesShapesThatBite) {
  std::vector<std::vector<float>> rows(7, std::vector<float>(256, 0.0f));
  rows[1].assign(256, 0.5f);  // constant
  rows[2].assign(256, -0.5f);
  rows[3][77] = -1000.0f;                                         // one spike
  rows[4].assign(256, std::numeric_limits<float>::denorm_min());  // too small for an f16 scale
  for (size_t i = 0; i < 256; ++i) rows[5][i] = (i % 2 == 0 ? 1.0f : -1.0f) * 60000.0f;
  for (size_t i = 0; i < 256; ++i) rows[6][i] = 1.0f + static_cast<float>(i) * 0x1p-20f;  // large mean, small spread
  for (const DType type : kPacked) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float> values = round_trip(type, rows[i]);
      float largest = 0;
      for (const float value : rows[i]) largest = std::max(largest, std::abs(value));
      for (const float value : values)
        ASSERT_LE(std::abs(value), 1.5f * largest + 1e-30f) << name(type) << " row " << i;
    }
    EXPECT_THAT(round_trip(type, rows[0]), ::testing::Each(0.0f)) << name(type);
  }
}

TEST(Quantize, KeepsExactValues) {
  std::vector<float> ternary(256);
  for (size_t i = 0; i < ternary.size(); ++i) ternary[i] = 0.5f * static_cast<float>(static_cast<int>(i % 3) - 1);
  for (const DType type : {DType::kTQ1_0, DType::kTQ2_0, DType::kQ8_0, DType::kMXFP4}) {
    EXPECT_LT(rmse(round_trip(type, ternary), ternary), 2e-4) << name(type);
  }
  std::vector<float> nibbles(256);
  for (size_t i = 0; i < nibbles.size(); ++i) nibbles[i] = 0.25f * static_cast<float>(static_cast<int>(i % 16) - 8);
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ6_K}) {
    EXPECT_LT(rmse(round_trip(type, nibbles), nibbles), 1e-3) << name(type);
  }
}

TEST(Quantize, ImportanceMovesTheError) {
  const std::vector<float> values = normal_values(16 * 256, 1.0f, 5);
  std::vector<float> importance(values.size(), 1.0f);
  for (size_t i = 0; i < importance.size(); i += 8) importance[i] = 1000.0f;
  const auto error_of_important = [&](const std::vector<float>& other) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); i += 8)
      sum += (double{values[i]} - other[i]) * (double{values[i]} - other[i]);
    return sum;
  };
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kIQ4_NL, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K}) {
    EXPECT_LT(error_of_important(round_trip(type, values, importance.data())),
              0.9 * error_of_important(round_trip(type, values)))
        << name(type);
  }
}

TEST(Quantize, PlainTypesRound) {
  const std::vector<float> values = normal_values(64, 1.0f);
  EXPECT_EQ(round_trip(DType::kF32, values), values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(round_trip(DType::kF16, values)[i], f16_to_f32(f32_to_f16(values[i])));
    EXPECT_EQ(round_trip(DType::kBF16, values)[i], bf16_to_f32(f32_to_bf16(values[i])));
  }
}

}  // namespace
}  // namespace loci
