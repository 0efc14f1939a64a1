// KV formats: codes, page layout, kv_store and kv_copy_pages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/kv_format/kv_format_list.h"
#include "tests/support/oracle.h"

namespace loci {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0};

TEST(KvFormat, NamesAndSizes) {
  for (const KvFormat format : kFormats) EXPECT_EQ(kv_format_from_name(name(format)), format);
  EXPECT_EQ(name(KvFormat::kBF16), "bf16");
  EXPECT_EQ(kv_format_from_name("q9"), std::nullopt);
  EXPECT_EQ(kv_format_from_name(""), std::nullopt);
  EXPECT_EQ(kv_page_bytes(KvFormat::kF16, 16, 64), 2048u);
  EXPECT_EQ(kv_page_bytes(KvFormat::kF32, 32, 128), 16384u);
  // 8.5 and 4.5 bits per value.
  EXPECT_EQ(kv_page_bytes(KvFormat::kQ8_0, 16, 64), 16u * 2 * 34);
  EXPECT_EQ(kv_page_bytes(KvFormat::kQ4_0, 16, 64), 16u * 2 * 18);
  EXPECT_EQ(kv_page_bytes(KvFormat::kQ8_0, 32, 128), 32u * 4 * 34);
  EXPECT_EQ(kv_page_bytes(KvFormat::kQ4_0, 32, 128), 32u * 4 * 18);
  for (const KvFormat format : kFormats) {
    const int granule = kv_format_granule(format);
    for (int dim = granule; dim <= 512; dim += granule) EXPECT_EQ(kv_page_bytes(format, 16, dim) % 64, 0u);
    EXPECT_NE(kv_format_names().find(name(format)), std::string::npos);
  }
}

// The nearest code, ties to even, by search through all finite codes.
template <typename Format>
void expect_nearest(float value) {
  const float stored = Format::decode(Format::encode(value));
  const auto code = Format::encode(value);
  for (const int step : {-1, 1}) {
    const float neighbour = Format::decode(static_cast<typename Format::Code>(code + step));
    if (!std::isfinite(neighbour) || std::signbit(neighbour) != std::signbit(stored)) continue;
    const double here = std::abs(double(value) - stored), there = std::abs(double(value) - neighbour);
    ASSERT_LE(here, there) << value;
    if (here == there) {
      ASSERT_EQ(code & 1, 0) << value << ": ties go to the even code";
    }
  }
}

TEST(KvFormat, EncodeIsTheNearestCode) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto c = static_cast<uint16_t>(code);
    const float half = KvF16::decode(c), bfloat = KvBF16::decode(c);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(KvF16::decode(KvF16::encode(half))));
    } else {
      ASSERT_EQ(KvF16::encode(half), c);
    }
    if (std::isnan(bfloat)) {
      EXPECT_TRUE(std::isnan(KvBF16::decode(KvBF16::encode(bfloat))));
    } else {
      ASSERT_EQ(KvBF16::encode(bfloat), c);
    }
  }
  for (const float sigma : {1e-7f, 1e-5f, 1.0f, 300.0f}) {
    for (const float value : oracle::normal(2000, 1, sigma)) {
      expect_nearest<KvF16>(value);
      expect_nearest<KvBF16>(value);
    }
  }
  expect_nearest<KvF16>(1.0f + 0x1p-11f);
  expect_nearest<KvF16>(1.0f + 3 * 0x1p-11f);
  EXPECT_EQ(KvF16::encode(65519.0f), 0x7bff);
  EXPECT_EQ(KvF16::encode(65520.0f), 0x7c00);
}

// Values on which encoders go wrong, normal ones between them.
std::vector<float> hostile_values(size_t n) {
  std::vector<float> values = oracle::normal(n, 5, 100.0f);
  const float special[] = {0.0f,  -0.0f, INFINITY, -INFINITY, 65504,  65519, 65520,
                           -1e9f, 1e-8f, 6e-8f,    6.1e-5f,   1e-40f, NAN,   -NAN};
  std::copy(std::begin(special), std::end(special), values.begin() + 3);
  if (n < 512) return values;
  for (size_t i = 64; i < 96; ++i) values[i] = 0;
  for (size_t i = 96; i < 128; ++i) values[i] = i % 2 == 0 ? 1e-41f : -3e-42f;
  for (size_t i = 128; i < 160; ++i) values[i] *= 1e-9f;                              // scales among the f16 subnormals
  for (size_t i = 160; i < 192; ++i) values[i] *= 1e4f;                               // near the largest scales
  for (size_t i = 192; i < 224; ++i) values[i] = i % 3 == 0 ? -7.0f : 7.0f;           // ties for the extreme
  for (size_t i = 224; i < 256; ++i) values[i] = static_cast<float>(i - 240) * 0.5f;  // ties between codes
  for (size_t i = 256; i < 288; ++i) values[i] *= 1e5f;
  values[300] = 3e38f;
  values[330] = -INFINITY;
  values[361] = NAN;
  return values;
}

// The ISA's encoder writes the tile of the format's definition, whatever the length.
TEST(KvFormat, StoreKernelsEqualTheDefinition) {
  const std::vector<float> values = hostile_values(513);
  const cpu::AttentionKernels& kernels = *cpu::choose_kernels().attention;
  for (const KvFormat format : kFormats) {
    visit_kv_format(format, [&](auto tag) {
      for (const int head_dim : {4, 12, 16, 20, 32, 64, 96, 512}) {
        if (head_dim % kv_format_granule(format) != 0) continue;
        const size_t bytes = kv_tile_bytes(format, head_dim);
        std::vector<std::byte> tiles[2][2];  // [K, V][kernel, definition]
        for (auto& side : tiles) side[0].assign(bytes, std::byte{0x5a}), side[1] = side[0];
        for (const int token : {3, 0, 15, 8, 7}) {
          const float* row = values.data() + token % 2;
          kernels.kv_store_k(format, row, head_dim, tiles[0][0].data(), token);
          tag.write_k(tiles[0][1].data(), token, head_dim, row);
          kernels.kv_store_v(format, row, head_dim, tiles[1][0].data(), token);
          tag.write_v(tiles[1][1].data(), token, head_dim, row);
        }
        ASSERT_EQ(tiles[0][0], tiles[0][1]) << "K " << name(format) << ", head dim " << head_dim;
        ASSERT_EQ(tiles[1][0], tiles[1][1]) << "V " << name(format) << ", head dim " << head_dim;
      }
    });
  }
}

// Codes are the nearest ones: at most half a scale away, two codes at the end of q4_0's positive side excepted.
TEST(KvFormat, BlocksRoundToTheNearestCode) {
  for (const float sigma : {0.05f, 1.0f, 500.0f}) {
    const std::vector<float> values = oracle::normal(32 * 200, 9, sigma);
    for (size_t i = 0; i < values.size(); i += 32) {
      const float* x = values.data() + i;
      KvBlock q8, q4;
      KvQ8_0::encode(x, q8);
      KvQ4_0::encode(x, q4);
      const float d8 = quant::half_to_float(q8.scale), d4 = quant::half_to_float(q4.scale);
      float amax = 0;
      for (int c = 0; c < 32; ++c) amax = std::max(amax, std::abs(x[c]));
      ASSERT_NEAR(d8, amax / 127, amax / 127 * 0x1p-10f);
      ASSERT_NEAR(std::abs(d4), amax / 8, amax / 8 * 0x1p-10f);
      for (int c = 0; c < 32; ++c) {
        ASSERT_LE(std::abs(q8.codes[c] * d8 - x[c]), d8 * 0.501f);
        ASSERT_LE(std::abs(q4.codes[c] * d4 - x[c]), std::abs(d4) * (q4.codes[c] == 7 ? 1.001f : 0.501f));
        ASSERT_GE(q8.codes[c], -127);
        ASSERT_TRUE(q4.codes[c] >= -8 && q4.codes[c] <= 7);
      }
    }
  }
}

TEST(KvFormat, BlocksThatCannotBeRepresentedAreNotNumbers) {
  for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f, -1e7f}) {
    float x[32] = {1, 2, 3};
    x[17] = bad;
    KvBlock q8, q4;
    KvQ8_0::encode(x, q8);
    KvQ4_0::encode(x, q4);
    EXPECT_TRUE(std::isnan(quant::half_to_float(q8.scale))) << bad;
    EXPECT_TRUE(std::isnan(quant::half_to_float(q4.scale))) << bad;
  }
  const float zeros[32] = {0.0f, -0.0f, 1e-40f, -1e-12f};
  KvBlock q8, q4;
  KvQ8_0::encode(zeros, q8);
  KvQ4_0::encode(zeros, q4);
  EXPECT_EQ(q8.scale, 0);
  EXPECT_EQ(q4.scale, 0);
}

struct Cache {
  KvLayer kv;
  std::shared_ptr<std::byte> memory;
};

Cache make_cache(Backend& backend, KvFormat k_format, KvFormat v_format, int page_size, int head_dim) {
  Cache cache;
  cache.kv.k_format = k_format;
  cache.kv.v_format = v_format;
  cache.kv.n_kv_heads = 3;
  cache.kv.head_dim = head_dim;
  cache.kv.page_size = page_size;
  cache.kv.n_pages = 5;
  cache.memory = backend.allocate(cache.kv.total_bytes());
  cache.kv.base = cache.memory.get();
  return cache;
}

// One token's row in a tile, by the words of docs/attention.md.
void write_tile(KvFormat format, bool keys, int head_dim, int token, const float* row, std::byte* tile) {
  auto* bytes = reinterpret_cast<uint8_t*>(tile);
  if (kv_format_granule(format) < 32) {
    visit_kv_format(format, [&](auto tag) {
      if constexpr (decltype(tag)::kBlock == 1) {
        for (int d = 0; d < head_dim; ++d) {
          const auto code = tag.encode(row[d]);
          std::memcpy(tile + (keys ? d * 16 + token : token * head_dim + d) * sizeof(code), &code, sizeof(code));
        }
      }
    });
    return;
  }
  const bool eight = format == KvFormat::kQ8_0;
  const int code_bytes = eight ? 16 * head_dim : 8 * head_dim;
  for (int d = 0; d < head_dim; ++d) {
    KvBlock block;
    if (eight) {
      KvQ8_0::encode(row + d / 32 * 32, block);
    } else {
      KvQ4_0::encode(row + d / 32 * 32, block);
    }
    const int code = block.codes[d % 32];
    if (eight) {
      bytes[keys ? d * 16 + token : token * head_dim + d] = static_cast<uint8_t>(code);
    } else {
      uint8_t& byte = bytes[keys ? d / 2 * 16 + token : token * head_dim / 2 + d / 16 * 8 + d % 8];
      const bool high = keys ? d % 2 == 1 : d % 16 >= 8;
      byte = static_cast<uint8_t>(high ? (byte & 15) | (code + 8) << 4 : (byte & 0xf0) | (code + 8));
    }
    std::memcpy(tile + code_bytes + (d / 32 * 16 + token) * 2, &block.scale, 2);
  }
}

// Byte by byte what the layout's definition says: planes per head, pages, tiles.
TEST(KvStore, WritesTheLayout) {
  const auto backend = make_cpu_backend({.n_threads = 2});
  for (const KvFormat k_format : kFormats) {
    for (const KvFormat v_format : kFormats) {
      for (const int page_size : {16, 48}) {
        const int head_dim = kv_format_granule(k_format) + kv_format_granule(v_format) < 32 ? 20 : 96;
        Cache cache = make_cache(*backend, k_format, v_format, page_size, head_dim);
        const KvLayer& kv = cache.kv;
        const int row_size = kv.n_kv_heads * head_dim;
        std::vector<int64_t> slots;
        for (int64_t slot = 0; slot < kv.n_pages * page_size; slot += 1 + slot % 3) slots.push_back(slot);
        std::reverse(slots.begin(), slots.end());
        const std::vector<float> k = oracle::normal(slots.size() * row_size, 1);
        const std::vector<float> v = oracle::normal(slots.size() * row_size, 2);
        backend->kv_store(kv, k.data(), row_size, v.data(), row_size, slots);

        std::vector<std::byte> expected(kv.total_bytes());
        for (size_t row = 0; row < slots.size(); ++row) {
          for (int head = 0; head < kv.n_kv_heads; ++head) {
            const int64_t page = slots[row] / page_size;
            const int token = static_cast<int>(slots[row] % page_size);
            std::byte* head_base = expected.data() + head * kv.head_bytes();
            const int64_t tile = page * (page_size / 16) + token / 16;  // tiles of a plane are back to back
            const size_t at = row * row_size + head * head_dim;
            write_tile(k_format, true, head_dim, token % 16, k.data() + at,
                       head_base + tile * kv_tile_bytes(k_format, head_dim));
            write_tile(v_format, false, head_dim, token % 16, v.data() + at,
                       head_base + kv.k_page_bytes() * kv.n_pages + tile * kv_tile_bytes(v_format, head_dim));
          }
        }
        ASSERT_EQ(std::memcmp(kv.base, expected.data(), expected.size()), 0)
            << "K " << name(k_format) << ", V " << name(v_format) << ", page size " << page_size;
      }
    }
  }
}

TEST(KvCopyPages, CopiesAllHeadsAndNothingElse) {
  const auto backend = make_cpu_backend({.n_threads = 1});
  Cache cache = make_cache(*backend, KvFormat::kF16, KvFormat::kF32, 16, 8);
  const KvLayer& kv = cache.kv;
  for (size_t i = 0; i < kv.total_bytes(); ++i) kv.base[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> before(kv.base, kv.base + kv.total_bytes());
  const std::vector<int32_t> src{1, 4, 3}, dst{0, 2, 3};
  backend->kv_copy_pages(kv, src, dst);
  KvLayer old = kv;
  old.base = before.data();
  for (int head = 0; head < kv.n_kv_heads; ++head) {
    const int expected[] = {1, 1, 4, 3, 4};
    for (int page = 0; page < 5; ++page) {
      EXPECT_EQ(std::memcmp(kv.k_page(head, page), old.k_page(head, expected[page]), kv.k_page_bytes()), 0) << page;
      EXPECT_EQ(std::memcmp(kv.v_page(head, page), old.v_page(head, expected[page]), kv.v_page_bytes()), 0) << page;
    }
  }
}

}  // namespace
}  // namespace loci
