// KvManager: prefixes found, shared, copied, evicted; no page lost.
#include "engine/kv/kv_manager.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/reference_backend.h"
#include "tests/support/tiny_model.h"

namespace loci {
namespace {

ArchSpec two_layers() {
  ArchSpec arch;
  arch.layers = {{.n_heads = 2, .n_kv_heads = 1, .head_dim = 8}, {.n_heads = 2, .n_kv_heads = 2, .head_dim = 8}};
  return arch;
}

class KvManagerTest : public testing::Test {
 protected:
  // A finished sequence of these tokens, its K/V bytes filled with `fill`.
  void finish(const std::vector<int32_t>& tokens, int fill = 1) {
    KvSequence sequence = kv_.match(tokens);
    ASSERT_TRUE(kv_.reserve(sequence, static_cast<int64_t>(tokens.size())));
    for (size_t i = 0; i < kv_.n_layers(); ++i) {
      for (const int32_t page : sequence.pages) {
        std::memset(kv_.layer(i).k_page(0, page), fill, kv_.layer(i).k_page_bytes());
      }
    }
    sequence.tokens = tokens;
    kv_.keep(std::move(sequence));
    kv_.check_invariants({});
  }
  int first_byte(const KvSequence& sequence, size_t page) const {
    return static_cast<int>(*kv_.layer(1).k_page(0, sequence.pages[page]));
  }

  std::unique_ptr<Backend> backend_ = test::make_reference_backend();
  ArchSpec arch_ = two_layers();
  KvManager kv_{arch_, KvConfig{}, 16 * 8, 0, *backend_};
};

TEST_F(KvManagerTest, FindsTheLongestPrefix) {
  const std::vector<int32_t> tokens = test::random_tokens(60, 1);
  finish(tokens, 7);
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 31u, 32u, 33u, 59u, 60u}) {
    std::vector<int32_t> other(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
    other.push_back(1000);  // differs from here on
    other.resize(70, 1000);
    KvSequence found = kv_.match(other);
    EXPECT_EQ(found.tokens.size(), n);
    EXPECT_EQ(found.pages.size(), (n + 15) / 16);
    for (size_t page = 0; page < found.pages.size(); ++page) EXPECT_EQ(first_byte(found, page), 7);
    const KvSequence* live[] = {&found};
    kv_.check_invariants(live);
    kv_.release(std::move(found));
    kv_.check_invariants({});
  }
}

TEST_F(KvManagerTest, WritingAfterAMatchLeavesTheKeptPagesAlone) {
  const std::vector<int32_t> tokens = test::random_tokens(40, 1);
  finish(tokens, 7);
  KvSequence found = kv_.match(std::span(tokens).first(36));
  ASSERT_EQ(found.tokens.size(), 36u);
  std::memset(kv_.layer(1).k_page(0, found.pages[2]), 9, kv_.layer(1).k_page_bytes());
  EXPECT_EQ(first_byte(*kv_.latest(), 2), 7);
  EXPECT_EQ(found.pages[0], kv_.latest()->pages[0]);
  kv_.release(std::move(found));
}

TEST_F(KvManagerTest, EvictsTheOldestWhenPagesAreShort) {
  finish(test::random_tokens(48, 1));
  finish(test::random_tokens(48, 2));
  EXPECT_EQ(kv_.n_free_pages(), 2);
  KvSequence touched = kv_.match(test::random_tokens(48, 1));  // now the second is the oldest
  kv_.release(std::move(touched));
  KvSequence live;
  ASSERT_TRUE(kv_.reserve(live, 16 * 4));
  EXPECT_EQ(kv_.n_kept(), 1);
  EXPECT_EQ(kv_.match(test::random_tokens(48, 2)).tokens.size(), 0u);
  ASSERT_TRUE(kv_.reserve(live, 16 * 8));
  EXPECT_EQ(kv_.n_kept(), 0);
  EXPECT_FALSE(kv_.reserve(live, 16 * 8 + 1));
  EXPECT_EQ(live.pages.size(), 8u);
  kv_.release(std::move(live));
  EXPECT_EQ(kv_.n_free_pages(), 8);
}

TEST_F(KvManagerTest, ALongerSequenceReplacesItsOwnPrefix) {
  const std::vector<int32_t> tokens = test::random_tokens(64, 1);
  for (const size_t n : {10u, 30u, 50u, 64u}) finish({tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)});
  EXPECT_EQ(kv_.n_kept(), 1);
  EXPECT_EQ(kv_.n_free_pages(), 4);
  kv_.clear();
  EXPECT_EQ(kv_.n_free_pages(), 8);
}

TEST_F(KvManagerTest, RandomUseLosesNoPage) {
  std::mt19937 random(5);
  std::vector<KvSequence> live;
  const auto check = [&] {
    std::vector<const KvSequence*> pointers;
    for (const KvSequence& sequence : live) pointers.push_back(&sequence);
    kv_.check_invariants(pointers);
  };
  for (int i = 0; i < 5000; ++i) {
    const uint32_t choice = random() % 4;
    if (choice == 0 || live.empty()) {
      std::vector<int32_t> tokens = test::random_tokens(static_cast<int>(random() % 40), random() % 3);
      tokens.resize(tokens.size() + random() % 20, 5);
      live.push_back(kv_.match(tokens));
    } else {
      const size_t at = random() % live.size();
      KvSequence& sequence = live[at];
      if (choice == 1) {
        const size_t n = sequence.tokens.size() + random() % 20;
        if (kv_.reserve(sequence, static_cast<int64_t>(n)))
          sequence.tokens.resize(n, static_cast<int32_t>(random() % 3));
      } else {
        if (choice == 2) {
          kv_.keep(std::move(sequence));
        } else {
          kv_.release(std::move(sequence));
        }
        live.erase(live.begin() + static_cast<ptrdiff_t>(at));
      }
    }
    check();
  }
}

}  // namespace
}  // namespace loci
