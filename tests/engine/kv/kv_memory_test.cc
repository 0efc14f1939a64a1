// KvMemory: little memory for few tokens, huge pages for many, the content stays.
#include "engine/kv/kv_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/kv/kv_manager.h"
#include "kernels/backend.h"

namespace loci {
namespace {

constexpr int kPageSize = 16;
constexpr int64_t kPages = 512;

// 4 layers x 3 heads x (K, V): 24 planes of 1 MiB.
std::vector<KvLayerShape> shapes() { return std::vector<KvLayerShape>(4, {3, 64, KvFormat::kF16, KvFormat::kF16}); }

int64_t resident_bytes(const KvManager& kv) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_resident((static_cast<size_t>(kv.bytes()) + page - 1) / page);
  EXPECT_EQ(::mincore(kv.layer(0).base, static_cast<size_t>(kv.bytes()), is_resident.data()), 0);
  int64_t n = 0;
  for (const unsigned char flags : is_resident) n += flags & 1;
  return n * static_cast<int64_t>(page);
}

// Fills every byte of a page that belongs to it with `value`.
void fill(KvManager& kv, int32_t page, std::byte value) {
  kv.write_page(page, std::vector<std::byte>(static_cast<size_t>(kv.page_bytes()), value));
}

std::vector<std::byte> content(const KvManager& kv, int32_t page) {
  std::vector<std::byte> image(static_cast<size_t>(kv.page_bytes()));
  kv.read_page(page, image);
  return image;
}

TEST(KvMemory, FewTokensTakeLittle) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.n_threads = 1});
  KvManager kv(shapes(), {.page_size = kPageSize}, {.n_pages = kPages}, *backend);
  ASSERT_EQ(kv.bytes(), 24 << 20);
  KvMatch found = KvManager::uncached();
  ASSERT_TRUE(kv.reserve(found.sequence, 2 * kPageSize));
  for (const int32_t page : found.sequence.pages) fill(kv, page, std::byte{1});
  EXPECT_EQ(kv.memory().huge_bytes(), 0);
  EXPECT_EQ(resident_bytes(kv), 24 * int64_t{::sysconf(_SC_PAGESIZE)}) << "4 KiB of each plane";
  kv.release(std::move(found.sequence));
}

TEST(KvMemory, BecomesHugeFromHalfOnAndKeepsItsContent) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.n_threads = 1});
  KvManager kv(shapes(), {.page_size = kPageSize}, {.n_pages = kPages}, *backend);
  KvMatch found = KvManager::uncached();
  KvSequence& sequence = found.sequence;
  for (int64_t n_pages = 1; n_pages <= kPages; ++n_pages) {
    ASSERT_TRUE(kv.reserve(sequence, n_pages * kPageSize));
    fill(kv, sequence.pages.back(), static_cast<std::byte>(n_pages));
    // Pages are told of in steps of 1/64 of the pool.
    if (n_pages < kPages / 2) {
      ASSERT_EQ(kv.memory().huge_bytes(), 0) << n_pages;
    } else if (n_pages >= kPages / 2 + kPages / 64) {
      ASSERT_EQ(kv.memory().huge_bytes(), kv.bytes()) << n_pages;
    }
  }
  for (int64_t i = 0; i < kPages; ++i) {
    const std::vector<std::byte> expected(static_cast<size_t>(kv.page_bytes()), static_cast<std::byte>(i + 1));
    ASSERT_EQ(content(kv, sequence.pages[static_cast<size_t>(i)]), expected) << "page " << i;
  }
  kv.release(std::move(sequence));
}

// Planes larger than a huge page, and window pages that are used up before the others.
TEST(KvMemory, EachPieceByItself) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.n_threads = 1});
  const std::vector<KvLayerShape> layers = {{1, 64, KvFormat::kF16, KvFormat::kF16},
                                            {1, 64, KvFormat::kF16, KvFormat::kF16, 16 * 1024}};
  constexpr int64_t kMany = 4096, kWindowPages = 1024;  // planes of 8 MiB; window planes of 2 MiB
  KvManager kv(layers, {.page_size = kPageSize}, {.n_pages = kMany, .n_window_pages = kWindowPages}, *backend);
  KvMatch found = KvManager::uncached();
  constexpr int64_t kPiece = kHugePiece;
  ASSERT_TRUE(kv.reserve(found.sequence, 1024 * kPageSize));
  EXPECT_EQ(kv.memory().huge_bytes(), 4 * kPiece) << "the first quarter of two planes, two window planes";
  kv.release(std::move(found.sequence));
}

TEST(KvMemory, LessThanAHugePageStaysSmall) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.n_threads = 1});
  KvManager kv(std::vector<KvLayerShape>(1, {3, 64, KvFormat::kF16, KvFormat::kF16}), {.page_size = kPageSize},
               {.n_pages = 128}, *backend);
  ASSERT_EQ(kv.bytes(), 3 << 19);
  KvMatch found = KvManager::uncached();
  ASSERT_TRUE(kv.reserve(found.sequence, 128 * kPageSize));
  EXPECT_EQ(kv.memory().huge_bytes(), 0);
  kv.release(std::move(found.sequence));
}

}  // namespace
}  // namespace loci
