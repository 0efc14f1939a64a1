// The pool's size: automatic within what is available, or as asked for; refusals name both numbers.
#include "engine/kv/pool_size.h"

#include <gmock/gmock.h>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

PoolNeeds needs() {
  return {.page_bytes = kMiB, .page_size = 16, .n_ctx = 1000, .max_sequences = 4, .available_bytes = 1000 * kMiB};
}

TEST(PoolSize, AutomaticIsAContextForEachSequence) {
  EXPECT_EQ(pool_pages(needs()).n_pages, 4 * 63);
  PoolNeeds few = needs();
  few.max_sequences = 1;
  EXPECT_EQ(pool_pages(few).n_pages, 63);
}

TEST(PoolSize, AutomaticTakesHalfOfWhatIsLeftButOneContextAtLeast) {
  PoolNeeds tight = needs();
  tight.available_bytes = 200 * kMiB;
  EXPECT_EQ(pool_pages(tight).n_pages, 100);
  tight.available_bytes = 70 * kMiB;
  EXPECT_EQ(pool_pages(tight).n_pages, 63);
  tight.available_bytes = 63 * kMiB - 1;
  EXPECT_THAT(test::error_of([&] { pool_pages(tight); }),
              AllOf(HasSubstr("1000 tokens needs 63.0 MiB"), HasSubstr("63.0 MiB are available"), HasSubstr("-c 896")));
  tight.available_bytes = kMiB / 2;
  EXPECT_THAT(test::error_of([&] { pool_pages(tight); }), HasSubstr("no context would fit"));
  tight.available_bytes = -1;
  EXPECT_EQ(pool_pages(tight).n_pages, 63);
}

TEST(PoolSize, ABudgetIsTakenAsItIs) {
  PoolNeeds told = needs();
  told.budget_bytes = 10 * kMiB + 5;
  EXPECT_EQ(pool_pages(told).n_pages, 10);
  told.budget_bytes = 900 * kMiB;
  EXPECT_EQ(pool_pages(told).n_pages, 900);
  told.budget_bytes = 1001 * kMiB;
  EXPECT_THAT(test::error_of([&] { pool_pages(told); }),
              AllOf(HasSubstr("1001.0 MiB"), HasSubstr("1000.0 MiB are available")));
  told.budget_bytes = kMiB / 2;
  EXPECT_THAT(test::error_of([&] { pool_pages(told); }),
              AllOf(HasSubstr("at least 1.0 MiB"), HasSubstr("16 tokens"), HasSubstr("found 0.5 MiB")));
}

// Three layers that keep all and fifteen with a window of 512.
PoolNeeds windowed() {
  PoolNeeds needs{.page_bytes = 3 * kMiB, .page_size = 16, .n_ctx = 32768, .max_sequences = 1};
  needs.available_bytes = int64_t{1} << 40;
  needs.window_page_bytes = 15 * kMiB;
  needs.window = 512;
  needs.max_rows = 512;
  return needs;
}

// A window for each sequence and the rows of a step; a quarter of the pages at least; never more than the pages.
TEST(PoolSize, WindowPages) {
  PoolNeeds needs = windowed();
  EXPECT_EQ(window_pages_beside(needs, 2048), 512);
  EXPECT_EQ(window_pages_beside(needs, 200), 34 + 34);
  EXPECT_EQ(window_pages_beside(needs, 60), 60);
  EXPECT_EQ(pool_pages(needs).n_pages, 2048);
  EXPECT_EQ(pool_pages(needs).n_window_pages, 512);
  EXPECT_EQ(pool_bytes(needs, 2048), (2048 * 3 + 512 * 15) * kMiB);
  needs.max_sequences = 32;
  EXPECT_EQ(window_pages_beside(needs, 2048), 32 * 34 + 34);
  needs.window_page_bytes = 0;
  EXPECT_EQ(pool_pages(needs).n_window_pages, 0);
}

// The budget pays for both kinds, and holds more tokens than if all layers kept all.
TEST(PoolSize, ABudgetIsSharedOutBetweenPagesAndWindowPages) {
  PoolNeeds needs = windowed();
  for (const int64_t n_pages : {1, 10, 67, 68, 200, 268, 300, 5000}) {
    needs.budget_bytes = pool_bytes(needs, n_pages);
    EXPECT_EQ(pool_pages(needs).n_pages, n_pages);
    needs.budget_bytes += 3 * kMiB - 1;
    EXPECT_EQ(pool_pages(needs).n_pages, n_pages);
    EXPECT_GE(n_pages, needs.budget_bytes / (18 * kMiB));
  }
  needs.budget_bytes = 1000 * 18 * kMiB;
  EXPECT_EQ(pool_pages(needs).n_pages, 2667);  // 2667 * 3 + 666 * 15 = 17991 MiB
  needs.budget_bytes = 17 * kMiB;
  EXPECT_THAT(test::error_of([&] { pool_pages(needs); }), HasSubstr("at least 18.0 MiB"));
}

TEST(PoolSize, HugeNumbersDoNotOverflow) {
  PoolNeeds huge = needs();
  huge.page_bytes = 16;
  huge.n_ctx = int64_t{1} << 24;
  huge.max_sequences = 1 << 12;
  huge.available_bytes = int64_t{1} << 50;
  EXPECT_EQ(pool_pages(huge).n_pages, INT32_MAX);
}

}  // namespace
}  // namespace loci
