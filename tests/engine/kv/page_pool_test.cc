// PagePool against a plain map, over many random operations.
#include "engine/kv/page_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace loci {
namespace {

TEST(PagePool, AgreesWithAMap) {
  constexpr int32_t kPages = 37;
  PagePool pool(kPages);
  std::map<int32_t, int32_t> model;  // page -> references
  std::mt19937 random(3);
  const auto some_page = [&] {
    return std::next(model.begin(), static_cast<ptrdiff_t>(random() % model.size()))->first;
  };
  for (int i = 0; i < 100000; ++i) {
    const uint32_t choice = random() % 3;
    if (choice == 0) {
      const std::optional<int32_t> page = pool.allocate();
      ASSERT_EQ(page.has_value(), model.size() < kPages);
      if (page) {
        ASSERT_FALSE(model.contains(*page));
        model[*page] = 1;
      }
    } else if (!model.empty()) {
      const int32_t page = some_page();
      if (choice == 1) {
        pool.share(page);
        ++model[page];
      } else {
        pool.release(page);
        if (--model[page] == 0) model.erase(page);
      }
    }
    ASSERT_EQ(pool.n_free(), kPages - static_cast<int32_t>(model.size()));
    if (i % 100 == 0) pool.check_invariants();
    if (!model.empty()) {
      const int32_t page = some_page();
      ASSERT_EQ(pool.references(page), model[page]);
    }
  }
}

TEST(PagePoolDeathTest, RefusesToFreeTwice) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  PagePool pool(2);
  const int32_t page = *pool.allocate();
  pool.release(page);
  EXPECT_DEATH(pool.release(page), "page freed twice");
}

}  // namespace
}  // namespace loci
