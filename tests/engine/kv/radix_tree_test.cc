// RadixTree against a plain list of all prefixes, and scripted scenes of splitting, locking and eviction.
#include "engine/kv/radix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

namespace loci {
namespace {

using Tokens = std::vector<int32_t>;

// A pool and a tree; inserted pages are allocated here and then belong to the tree alone.
struct Forest {
  Forest(int32_t n_pages, int size) : pool(n_pages), tree(pool, size), page_size(size) {}

  RadixNode* root() { return tree.root({}); }
  // Returns the pages at which the tree holds `tokens`, whole pages only.
  std::vector<int32_t> insert(const Tokens& tokens) {
    std::vector<int32_t> pages;
    for (size_t i = 0; i < tokens.size() / static_cast<size_t>(page_size); ++i) pages.push_back(*pool.allocate());
    tree.insert(root(), std::span(tokens).first(pages.size() * static_cast<size_t>(page_size)), pages);
    for (const int32_t page : pages) pool.release(page);
    return pages;
  }
  void insert_with_tail(const Tokens& tokens) {
    insert(tokens);
    const size_t n_tail = tokens.size() % static_cast<size_t>(page_size);
    if (n_tail == 0) return;
    const RadixMatch found = tree.match(root(), std::span(tokens).first(tokens.size() - n_tail));
    int32_t page = *pool.allocate();
    tree.insert_tail(found.node, std::span(tokens).last(n_tail), page);
    pool.release(page);
  }
  int64_t cached(const Tokens& tokens) {
    const int64_t n = tree.peek(root(), tokens);
    const RadixMatch found = tree.match(root(), tokens);
    EXPECT_EQ(static_cast<int64_t>(found.pages.size()) * page_size + found.n_partial, n);
    return n;
  }
  CacheReport report(const Tokens& tokens) {
    const RadixMatch found = tree.match(root(), tokens);
    return tree.explain(root(), tokens, found);
  }

  PagePool pool;
  RadixTree tree;
  int page_size;
};

// T4.6: the scene of the specification, page size 1.
TEST(RadixTree, EvictsLeastRecentlyUsedLeavesOnly) {
  Forest forest(16, 1);
  forest.insert({1, 2, 3, 4});
  forest.insert({1, 2, 5});
  EXPECT_EQ(forest.cached({1, 2, 3, 9}), 3);  // splits 3-4
  forest.tree.check_invariants({});
  EXPECT_EQ(forest.tree.evict(1), 1);
  EXPECT_EQ(forest.tree.peek(forest.root(), Tokens{1, 2, 3, 4}), 3);
  EXPECT_EQ(forest.tree.evict(1), 1);
  EXPECT_EQ(forest.tree.peek(forest.root(), Tokens{1, 2, 5}), 2);
  EXPECT_EQ(forest.tree.evict(1), 1);
  EXPECT_EQ(forest.tree.peek(forest.root(), Tokens{1, 2, 3}), 2);
  EXPECT_EQ(forest.tree.evict(5), 2);
  EXPECT_EQ(forest.tree.n_pages(), 0);
  EXPECT_EQ(forest.pool.n_free(), 16);
  forest.tree.check_invariants({});
}

TEST(RadixTree, EvictionTakesFromTheEndOfALeaf) {
  Forest forest(16, 4);
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  forest.insert(tokens);
  forest.insert({20, 21, 22, 23, 24, 25, 26, 27});
  EXPECT_EQ(forest.tree.evict(2), 2);
  EXPECT_EQ(forest.cached(tokens), 4);
  EXPECT_EQ(forest.cached({20, 21, 22, 23, 24, 25, 26, 27}), 8);
  forest.tree.check_invariants({});
}

TEST(RadixTree, UseOfAPathKeepsItsLeaf) {
  Forest forest(16, 4);
  const Tokens a = {1, 1, 1, 1, 2, 2, 2, 2}, b = {1, 1, 1, 1, 3, 3, 3, 3}, c = {1, 1, 1, 1, 4, 4, 4, 4};
  for (const Tokens& tokens : {a, b, c}) forest.insert(tokens);
  forest.cached(a);
  EXPECT_EQ(forest.tree.n_leaves(), 3);
  EXPECT_EQ(forest.tree.evict(1), 1);
  EXPECT_EQ(forest.tree.peek(forest.root(), b), 4);
  EXPECT_EQ(forest.tree.evict(1), 1);
  EXPECT_EQ(forest.tree.peek(forest.root(), c), 4);
  EXPECT_EQ(forest.tree.peek(forest.root(), a), 8);
}

// T4.4
TEST(RadixTree, LockedPathsStay) {
  Forest forest(16, 4);
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  forest.insert(tokens);
  RadixNode* node = forest.tree.match(forest.root(), std::span(tokens).first(8)).node;
  forest.tree.lock(node);
  EXPECT_EQ(forest.tree.n_evictable_pages(), 1);
  EXPECT_EQ(forest.tree.evict(3), 1);
  EXPECT_EQ(forest.cached(tokens), 8);
  // A split below a lock keeps both halves locked.
  RadixNode* upper = forest.tree.match(forest.root(), std::span(tokens).first(4)).node;
  EXPECT_NE(upper, node);
  RadixNode* const live[] = {node};
  forest.tree.check_invariants(live);
  EXPECT_EQ(forest.tree.evict(3), 0);
  forest.tree.unlock(node);
  EXPECT_EQ(forest.tree.evict(3), 2);
  forest.tree.check_invariants({});
}

TEST(RadixTree, DuplicatePagesGoBack) {
  Forest forest(16, 4);
  const std::vector<int32_t> first = forest.insert({1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<int32_t> second = forest.insert({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9});
  EXPECT_EQ(std::vector<int32_t>(second.begin(), second.begin() + 2), first);
  EXPECT_EQ(forest.pool.n_free(), 13);
}

TEST(RadixTree, TailsAreFoundTokenByToken) {
  Forest forest(16, 4);
  forest.insert_with_tail({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(forest.cached({1, 2, 3, 4, 5, 6, 7}), 6);
  EXPECT_EQ(forest.cached({1, 2, 3, 4, 5, 9}), 5);
  forest.insert_with_tail({1, 2, 3, 4, 5});  // the beginning of what is there
  EXPECT_EQ(forest.tree.n_pages(), 2);
  forest.insert_with_tail({1, 2, 3, 4, 5, 6, 7});  // takes its place
  EXPECT_EQ(forest.tree.n_pages(), 2);
  forest.insert_with_tail({1, 2, 3, 4, 5, 8});  // stands beside it
  EXPECT_EQ(forest.tree.n_pages(), 3);
  forest.insert({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(forest.tree.n_pages(), 3);
  EXPECT_EQ(forest.cached({1, 2, 3, 4, 5, 8, 8, 8}), 6);
  EXPECT_EQ(forest.cached({1, 2, 3, 4, 5, 6, 7, 8}), 8);
  EXPECT_EQ(forest.cached({1, 2, 3, 4, 5, 6, 7, 9}), 7);
  EXPECT_EQ(forest.cached({1, 2}), 2);
  forest.tree.check_invariants({});
}

TEST(RadixTree, ShortensAPathInsideANode) {
  Forest forest(16, 2);
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<int32_t> pages = forest.insert(tokens);
  for (const int64_t n : {0, 1, 3, 4}) {
    RadixNode* node = forest.tree.match(forest.root(), tokens).node;
    RadixNode* shorter = forest.tree.shorten(node, n);
    EXPECT_EQ(forest.tree.path_pages(shorter), std::vector<int32_t>(pages.begin(), pages.end() - n));
    forest.tree.check_invariants({});
  }
}

TEST(RadixTree, TellsWhatTheCacheHoldsInstead) {
  Forest forest(16, 4);
  EXPECT_EQ(forest.report({1, 2}).cause, MissCause::kEmpty);
  forest.insert_with_tail({1, 2, 3, 4, 5, 6, 7, 8, 9});
  forest.insert_with_tail({1, 2, 3, 4, 8, 8, 8, 8});
  CacheReport report = forest.report({1, 2, 3, 4, 5, 6, 0});
  EXPECT_EQ(report.cause, MissCause::kDiffers);
  EXPECT_EQ(report.first_difference, 6);
  EXPECT_EQ(report.cached_there, (Tokens{7, 8, 9}));
  report = forest.report({1, 2, 3, 4, 6, 6});
  EXPECT_EQ(report.first_difference, 4);
  EXPECT_EQ(report.cached_there, (Tokens{5, 6, 7, 8, 9}));  // the branch used last
  EXPECT_EQ(forest.report({1, 2, 3, 4, 5, 6, 7, 8, 9, 1}).cause, MissCause::kNone);
  EXPECT_EQ(forest.report({1, 2, 3, 4, 5, 6, 7}).cause, MissCause::kNone);
  forest.tree.evict(2);  // the branch with 8, and the tail
  EXPECT_EQ(forest.report({1, 2, 3, 4, 8, 8, 8, 8, 3}).cause, MissCause::kEvicted);
  EXPECT_EQ(forest.tree
                .explain(forest.tree.root({.variant = "x"}), Tokens{1, 2},
                         RadixMatch{.node = forest.tree.root({.variant = "x"}), .pages = {}})
                .cause,
            MissCause::kOtherNamespace);
}

// T4.1, T4.2: 100,000 operations on prefixes that collide all the time. Without eviction the tree knows the longest
// common prefix with anything inserted, to the page and, by tails, to the token.
TEST(RadixTree, AgreesWithAListOfPrefixes) {
  constexpr int kSize = 4;
  std::mt19937 random(7);
  int n_operations = 0;
  while (n_operations < 100000) {
    Forest forest(4096, kSize);
    std::vector<Tokens> inserted;
    std::vector<RadixNode*> locked;
    const auto some_tokens = [&] {
      Tokens tokens(random() % 30);
      if (!inserted.empty() && random() % 2 == 0) {
        const Tokens& base = inserted[random() % inserted.size()];
        std::copy_n(base.begin(), std::min(base.size(), tokens.size()), tokens.begin());
      }
      for (int32_t& token : tokens) {
        if (random() % 12 == 0) token = static_cast<int32_t>(random() % 3);
      }
      return tokens;
    };
    for (int i = 0; i < 500; ++i, ++n_operations) {
      const Tokens tokens = some_tokens();
      const uint32_t choice = random() % 8;
      if (choice < 3) {
        if (forest.pool.n_free() < 16) break;
        forest.insert_with_tail(tokens);
        inserted.push_back(tokens);
      } else if (choice < 6) {
        int64_t longest = 0;
        for (const Tokens& other : inserted) {
          const size_t n = std::min(tokens.size(), other.size());
          const auto end = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n), other.begin());
          longest = std::max<int64_t>(longest, end.first - tokens.begin());
        }
        ASSERT_EQ(forest.cached(tokens), longest);
      } else if (choice == 6) {
        locked.push_back(forest.tree.match(forest.root(), tokens).node);
        forest.tree.lock(locked.back());
      } else if (!locked.empty()) {
        forest.tree.unlock(locked.back());
        locked.pop_back();
      }
      if (i % 8 == 0) forest.tree.check_invariants(locked);
    }
    forest.tree.check_invariants(locked);
    for (RadixNode* node : locked) forest.tree.unlock(node);
    forest.tree.evict(forest.tree.n_pages());
    ASSERT_EQ(forest.pool.n_free(), 4096);
  }
}

// The same under eviction: what is found is always a prefix of something inserted, on the very pages that were given
// for it, and locked paths keep all of theirs.
TEST(RadixTree, EvictionNeverMixesPaths) {
  constexpr int kSize = 2;
  std::mt19937 random(8);
  Forest forest(60, kSize);
  std::map<int32_t, Tokens> path_of;  // page -> the tokens up to its end, as of its last insertion
  std::vector<std::pair<RadixNode*, std::vector<int32_t>>> locked;
  for (int i = 0; i < 60000; ++i) {
    Tokens tokens(random() % 24);
    for (int32_t& token : tokens) token = random() % 10 == 0 ? 1 : 0;
    const uint32_t choice = random() % 6;
    if (choice < 2) {
      const int64_t n_needed = static_cast<int64_t>(tokens.size()) / kSize - forest.pool.n_free();
      if (n_needed > 0 && forest.tree.evict(n_needed) < n_needed) continue;
      const RadixMatch before = forest.tree.match(forest.root(), tokens);
      const std::vector<int32_t> pages = forest.insert(tokens);
      ASSERT_TRUE(std::equal(before.pages.begin(), before.pages.end(), pages.begin()));
      for (size_t p = before.pages.size(); p < pages.size(); ++p) {
        path_of[pages[p]] = Tokens(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(p + 1) * kSize);
      }
    } else if (choice == 2) {
      forest.tree.evict(random() % 4);
    } else if (choice == 3 && locked.size() < 5) {
      const RadixMatch found = forest.tree.match(forest.root(), tokens);
      forest.tree.lock(found.node);
      locked.emplace_back(found.node, found.pages);
    } else if (choice == 4 && !locked.empty()) {
      std::swap(locked[random() % locked.size()], locked.back());
      forest.tree.unlock(locked.back().first);
      locked.pop_back();
    } else {
      const RadixMatch found = forest.tree.match(forest.root(), tokens);
      for (size_t p = 0; p < found.pages.size(); ++p) {
        ASSERT_EQ(path_of[found.pages[p]],
                  Tokens(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(p + 1) * kSize));
      }
    }
    if (i % 16 != 0) continue;
    std::vector<RadixNode*> ends;
    for (const auto& [node, pages] : locked) {
      ASSERT_EQ(forest.tree.path_pages(node), pages);
      ends.push_back(node);
    }
    forest.tree.check_invariants(ends);
    ASSERT_EQ(forest.tree.n_pages() + forest.pool.n_free(), 60);
  }
}

}  // namespace
}  // namespace loci
