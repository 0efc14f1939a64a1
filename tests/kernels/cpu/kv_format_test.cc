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

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16};

TEST(KvFormat, NamesAndSizes) {
  for (const KvFormat format : kFormats) EXPECT_EQ(kv_format_from_name(name(format)), format);
  EXPECT_EQ(name(KvFormat::kBF16), "bf16");
  EXPECT_EQ(kv_format_from_name("q9"), std::nullopt);
  EXPECT_EQ(kv_format_from_name(""), std::nullopt);
  EXPECT_EQ(kv_page_bytes(KvFormat::kF16, 16, 64), 2048u);
  EXPECT_EQ(kv_page_bytes(KvFormat::kF32, 32, 128), 16384u);
  for (const KvFormat format : kFormats) {
    for (int head_dim = 4; head_dim <= 512; head_dim += 4) EXPECT_EQ(kv_page_bytes(format, 16, head_dim) % 64, 0u);
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

// The ISA's encoder gives the codes of the format's definition, whatever the length and the stride.
TEST(KvFormat, EncodeKernelEqualsTheDefinition) {
  std::vector<float> values = oracle::normal(513, 5, 100.0f);
  const float special[] = {0.0f,  -0.0f, INFINITY, -INFINITY, 65504,  65519, 65520,
                           -1e9f, 1e-8f, 6e-8f,    6.1e-5f,   1e-40f, NAN,   -NAN};
  std::copy(std::begin(special), std::end(special), values.begin() + 3);
  const cpu::AttentionKernels& kernels = *cpu::choose_kernels().attention;
  for (const KvFormat format : kFormats) {
    visit_kv_format(format, [&](auto tag) {
      using Format = decltype(tag);
      for (const int n : {4, 12, 16, 20, 64, 512}) {
        for (const int stride : {1, 16}) {
          std::vector<typename Format::Code> codes(n * stride), expected(n * stride);
          for (int i = 0; i < n; ++i) expected[i * stride] = Format::encode(values[i]);
          kernels.kv_encode(format, values.data(), n, reinterpret_cast<std::byte*>(codes.data()), stride);
          ASSERT_EQ(std::memcmp(codes.data(), expected.data(), codes.size() * sizeof(codes[0])), 0)
              << name(format) << ", n " << n << ", stride " << stride;
        }
      }
    });
  }
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

// Byte by byte what the layout's definition says: planes per head, pages, tiles [head_dim][16] and [16][head_dim].
TEST(KvStore, WritesTheLayout) {
  const auto backend = make_cpu_backend({.n_threads = 2});
  for (const KvFormat k_format : kFormats) {
    for (const KvFormat v_format : kFormats) {
      for (const int page_size : {16, 48}) {
        const int head_dim = 20;
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
            const int64_t page = slots[row] / page_size, token = slots[row] % page_size;
            std::byte* head_base = expected.data() + head * kv.head_bytes();
            const int64_t tile = page * (page_size / 16) + token / 16;  // tiles of a plane are back to back
            for (int d = 0; d < head_dim; ++d) {
              const auto put = [&](KvFormat format, std::byte* plane, int64_t index, float value) {
                visit_kv_format(format, [&](auto tag) {
                  const auto code = decltype(tag)::encode(value);
                  std::memcpy(plane + index * sizeof(code), &code, sizeof(code));
                });
              };
              put(k_format, head_base, (tile * head_dim + d) * 16 + token % 16,
                  k[row * row_size + head * head_dim + d]);
              put(v_format, head_base + kv.k_page_bytes() * kv.n_pages, (tile * 16 + token % 16) * head_dim + d,
                  v[row * row_size + head * head_dim + d]);
            }
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
