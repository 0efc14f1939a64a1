// WindowPages against a plain model, over many random operations.
#include "engine/kv/window_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace loci {
namespace {

TEST(WindowPages, AgreesWithAPlainModel) {
  constexpr int32_t kPages = 40, kWindowPages = 11;
  struct Page {
    int pins = 0;
    size_t idle_since = 0;  // 0: not idle
  };
  WindowPages windows(kPages, kWindowPages);
  std::map<int32_t, Page> model;  // pages with a window page
  std::mt19937 random(3);
  size_t clock = 0;
  const auto n_idle = [&] {
    return std::count_if(model.begin(), model.end(), [](const auto& entry) { return entry.second.pins == 0; });
  };
  const auto some = [&](bool pinned) {
    std::vector<int32_t> pages;
    for (const auto& [page, state] : model) {
      if ((state.pins > 0) == pinned) pages.push_back(page);
    }
    return pages.empty() ? -1 : pages[random() % pages.size()];
  };
  for (int i = 0; i < 40000; ++i) {
    const auto page = static_cast<int32_t>(random() % kPages);
    const uint32_t choice = random() % 7;
    if (choice <= 1 && !model.contains(page)) {
      const bool possible = model.size() < kWindowPages || n_idle() > 0;
      ASSERT_EQ(windows.attach(page), possible);
      if (!possible) continue;
      if (model.size() == kWindowPages) {
        const auto oldest = std::min_element(model.begin(), model.end(), [](const auto& a, const auto& b) {
          const auto age = [](const Page& p) { return p.pins > 0 ? SIZE_MAX : p.idle_since; };
          return age(a.second) < age(b.second);
        });
        model.erase(oldest);
      }
      model[page] = {.pins = 1, .idle_since = 0};
    } else if (choice == 2 && model.contains(page)) {
      windows.pin(page);
      ++model[page].pins;
      model[page].idle_since = 0;
    } else if (choice <= 4) {
      const int32_t pinned = some(true);
      if (pinned < 0) continue;
      const bool keep = random() % 3 != 0;
      windows.unpin(pinned, keep);
      if (--model[pinned].pins > 0) continue;
      if (keep) {
        model[pinned].idle_since = ++clock;
      } else {
        model.erase(pinned);
      }
    } else if (choice == 5) {
      const auto to = static_cast<int32_t>(random() % kPages);
      if (page == to) continue;
      windows.hand_over(page, to);
      const bool had = model.contains(to);
      if (model.contains(page)) {
        const Page from = model[page];
        model.erase(page);
        model[to].pins += from.pins;
        if (!had && from.pins == 0) model[to].idle_since = ++clock;
        if (model[to].pins > 0) model[to].idle_since = 0;
      }
    } else if (choice == 6) {
      const int32_t idle = some(false);
      if (idle >= 0 && random() % 2 == 0) {
        windows.drop(idle);
        model.erase(idle);
      } else if (!model.contains(page)) {
        windows.drop(page);  // nothing to do
      }
    }
    if (i % 50 == 0) windows.check_invariants();
    ASSERT_EQ(windows.n_free(), kWindowPages - static_cast<int32_t>(model.size()));
    ASSERT_EQ(windows.n_idle(), n_idle());
    std::set<int32_t> used;
    for (int32_t p = 0; p < kPages; ++p) {
      ASSERT_EQ(windows.of(p) >= 0, model.contains(p));
      if (windows.of(p) < 0) continue;
      ASSERT_TRUE(used.insert(windows.of(p)).second);
      ASSERT_EQ(windows.pins(p), model[p].pins);
    }
  }
}

TEST(WindowPagesDeathTest, RefusesWhatLosesTrack) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  WindowPages windows(4, 2);
  ASSERT_TRUE(windows.attach(1));
  EXPECT_DEATH((void)windows.attach(1), "already");
  EXPECT_DEATH(windows.drop(1), "pinned");
  EXPECT_DEATH(windows.pin(0), "no window page");
  windows.unpin(1, true);
  EXPECT_DEATH(windows.unpin(1, true), "unpinned twice");
}

}  // namespace
}  // namespace loci
