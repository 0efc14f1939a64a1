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
  EXPECT_EQ(pool_pages(needs()), 4 * 63);
  PoolNeeds few = needs();
  few.max_sequences = 1;
  EXPECT_EQ(pool_pages(few), 63);
}

TEST(PoolSize, AutomaticTakesHalfOfWhatIsLeftButOneContextAtLeast) {
  PoolNeeds tight = needs();
  tight.available_bytes = 200 * kMiB;
  EXPECT_EQ(pool_pages(tight), 100);
  tight.available_bytes = 70 * kMiB;
  EXPECT_EQ(pool_pages(tight), 63);
  tight.available_bytes = 63 * kMiB - 1;
  EXPECT_THAT(test::error_of([&] { pool_pages(tight); }),
              AllOf(HasSubstr("1000 tokens needs 63.0 MiB"), HasSubstr("63.0 MiB are available"), HasSubstr("-c 896")));
  tight.available_bytes = kMiB / 2;
  EXPECT_THAT(test::error_of([&] { pool_pages(tight); }), HasSubstr("no context would fit"));
  tight.available_bytes = -1;
  EXPECT_EQ(pool_pages(tight), 63);
}

TEST(PoolSize, ABudgetIsTakenAsItIs) {
  PoolNeeds told = needs();
  told.budget_bytes = 10 * kMiB + 5;
  EXPECT_EQ(pool_pages(told), 10);
  told.budget_bytes = 900 * kMiB;
  EXPECT_EQ(pool_pages(told), 900);
  told.budget_bytes = 1001 * kMiB;
  EXPECT_THAT(test::error_of([&] { pool_pages(told); }),
              AllOf(HasSubstr("1001.0 MiB"), HasSubstr("1000.0 MiB are available")));
  told.budget_bytes = kMiB / 2;
  EXPECT_THAT(test::error_of([&] { pool_pages(told); }),
              AllOf(HasSubstr("at least 1.0 MiB"), HasSubstr("16 tokens"), HasSubstr("found 0.5 MiB")));
}

TEST(PoolSize, HugeNumbersDoNotOverflow) {
  PoolNeeds huge = needs();
  huge.page_bytes = 16;
  huge.n_ctx = int64_t{1} << 24;
  huge.max_sequences = 1 << 12;
  huge.available_bytes = int64_t{1} << 50;
  EXPECT_EQ(pool_pages(huge), INT32_MAX);
}

}  // namespace
}  // namespace loci
