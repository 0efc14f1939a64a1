// KvManager: prefixes found, shared, copied, forked, cut, swapped, evicted; no page lost, no content mixed up.
#include "engine/kv/kv_manager.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "tests/support/reference_backend.h"
#include "tests/support/tiny_model.h"

namespace loci {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int64_t kPage = 16;

Tokens prefix(const Tokens& tokens, size_t n) { return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)}; }

// A window of so many tokens in a third layer, with window pages; 0: there is no such layer.
struct Windows {
  int tokens = 0;
  int64_t n_pages = 0;
};

// A manager whose K channel 0 holds, for each token, a value that only its whole prefix gives: the stand-in for K/V.
class Cache {
 public:
  explicit Cache(int64_t n_pages, int64_t swap_bytes = 0, Windows windows = {})
      : window_(windows.tokens),
        kv(shapes(windows.tokens), KvConfig{.page_size = kPage, .swap_bytes = swap_bytes},
           {.n_pages = n_pages, .n_window_pages = windows.n_pages}, *backend_) {}

  static std::vector<KvLayerShape> shapes(int window) {
    std::vector<KvLayerShape> shapes = {{1, 8, KvFormat::kF32, KvFormat::kF32}, {2, 8, KvFormat::kF32, KvFormat::kF16}};
    if (window > 0) shapes.push_back({1, 8, KvFormat::kF32, KvFormat::kF32, window});
    return shapes;
  }

  // "Computes" tokens, as a forward pass would.
  void compute(KvSequence& sequence, const Tokens& tokens) {
    for (const int32_t token : tokens) {
      const auto position = static_cast<int64_t>(sequence.tokens.size());
      Tokens all = sequence.tokens;
      all.push_back(token);
      value_at(sequence, position) = expected(all, position);
      if (window_ > 0) window_value_at(sequence, position) = expected(all, position);
      kv.append(sequence, {&token, 1});
    }
  }
  [[nodiscard]] bool append(KvSequence& sequence, const Tokens& tokens) {
    if (!kv.reserve(sequence, static_cast<int64_t>(sequence.tokens.size() + tokens.size()))) return false;
    compute(sequence, tokens);
    return true;
  }
  // A request from beginning to end. Returns how many tokens were cached.
  int64_t run(const Tokens& tokens, const CacheNamespace& ns = {}) {
    KvMatch found = kv.match(tokens, ns);
    check(found.sequence);
    EXPECT_TRUE(append(found.sequence, Tokens(tokens.begin() + found.report.n_cached, tokens.end())));
    kv.keep(std::move(found.sequence));
    return found.report.n_cached;
  }
  // Every token's K/V is that of exactly its prefix; in layers with a window that of those that the next token sees.
  void check(const KvSequence& sequence) {
    const auto n = static_cast<int64_t>(sequence.tokens.size());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(value_at(sequence, i), expected(sequence.tokens, i)) << "position " << i;
      if (window_ == 0 || i + window_ <= n) continue;
      ASSERT_GE(kv.window_page(sequence.pages[static_cast<size_t>(i / kPage)]), 0) << "position " << i;
      ASSERT_EQ(window_value_at(sequence, i), expected(sequence.tokens, i)) << "position " << i;
    }
  }
  void check_all(std::initializer_list<const KvSequence*> live) {
    for (const KvSequence* sequence : live) check(*sequence);
    kv.check_invariants(std::vector<const KvSequence*>(live));
  }

 private:
  float& value_at(const KvSequence& sequence, int64_t position) {
    std::byte* page = kv.layer(1).k_page(1, sequence.pages[static_cast<size_t>(position / kPage)]);
    return reinterpret_cast<float*>(page)[position % kPage];
  }
  float& window_value_at(const KvSequence& sequence, int64_t position) {
    std::byte* page = kv.layer(2).k_page(0, kv.window_page(sequence.pages[static_cast<size_t>(position / kPage)]));
    return reinterpret_cast<float*>(page)[position % kPage];
  }
  static float expected(const Tokens& tokens, int64_t position) {
    uint32_t hash = 17;
    for (int64_t i = 0; i <= position; ++i) hash = hash * 31 + static_cast<uint32_t>(tokens[static_cast<size_t>(i)]);
    return static_cast<float>(hash >> 8);
  }

  std::unique_ptr<Backend> backend_ = test::make_reference_backend();
  int64_t window_;

 public:
  KvManager kv;
};

TEST(KvManager, FindsTheLongestPrefix) {
  Cache cache(8);
  const Tokens tokens = test::random_tokens(60, 1);
  cache.run(tokens);
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 31u, 32u, 33u, 59u, 60u}) {
    Tokens other = prefix(tokens, n);
    other.resize(70, 1000);  // differs from here on
    EXPECT_EQ(cache.kv.peek(other, {}), static_cast<int64_t>(n));
    KvMatch found = cache.kv.match(other, {});
    EXPECT_EQ(found.report.n_cached, static_cast<int64_t>(n));
    EXPECT_EQ(found.sequence.tokens, prefix(tokens, n));
    EXPECT_EQ(static_cast<int64_t>(found.sequence.pages.size()), cache.kv.n_pages_for(static_cast<int64_t>(n)));
    cache.check_all({&found.sequence});
    cache.kv.release(std::move(found.sequence));
    cache.check_all({});
  }
}

TEST(KvManager, AFullHitLeavesTheLastToken) {
  Cache cache(8);
  for (const int n : {1, 15, 16, 17, 32, 33}) {
    const Tokens tokens = test::random_tokens(n, 1);
    cache.run(tokens);
    EXPECT_EQ(cache.run(tokens), n - 1);
  }
  EXPECT_EQ(cache.kv.match({}, {}).report.n_cached, 0);
}

TEST(KvManager, WritingAfterAMatchLeavesTheCachedPageAlone) {
  Cache cache(8);
  const Tokens tokens = test::random_tokens(40, 1);
  cache.run(tokens);
  Tokens edited = prefix(tokens, 36);
  edited.resize(50, 7);
  KvMatch first = cache.kv.match(edited, {});
  KvMatch second = cache.kv.match(edited, {});
  ASSERT_EQ(first.report.n_cached, 36);
  EXPECT_EQ(first.sequence.pages, second.sequence.pages);
  ASSERT_TRUE(cache.append(first.sequence, {1, 2, 3}));
  ASSERT_TRUE(cache.append(second.sequence, {4, 5, 6}));
  EXPECT_EQ(cache.kv.stats().n_copied_pages, 2);
  cache.check_all({&first.sequence, &second.sequence});
  cache.kv.release(std::move(first.sequence));
  cache.kv.release(std::move(second.sequence));
  EXPECT_EQ(cache.run(tokens), 39);  // as before
}

TEST(KvManager, EvictsTheOldestLeafWhenPagesAreShort) {
  Cache cache(8);
  cache.run(test::random_tokens(48, 1));
  cache.run(test::random_tokens(48, 2));
  EXPECT_EQ(cache.kv.n_free_pages(), 2);
  cache.kv.release(cache.kv.find(test::random_tokens(48, 1), {}));  // now the second is the oldest
  KvSequence live;
  ASSERT_TRUE(cache.kv.reserve(live, kPage * 4));
  EXPECT_EQ(cache.kv.peek(test::random_tokens(48, 1), {}), 47);
  EXPECT_EQ(cache.kv.peek(test::random_tokens(48, 2), {}), kPage);  // from its end
  ASSERT_TRUE(cache.kv.reserve(live, kPage * 8));
  EXPECT_EQ(cache.kv.stats().n_cached, 0);
  EXPECT_FALSE(cache.kv.reserve(live, kPage * 8 + 1));
  EXPECT_EQ(live.pages.size(), 8u);
  cache.kv.release(std::move(live));
  EXPECT_EQ(cache.kv.n_free_pages(), 8);
}

TEST(KvManager, NothingIsEvictedForWhatDoesNotFit) {
  Cache cache(8);
  cache.run(test::random_tokens(48, 1));
  KvSequence live;
  EXPECT_FALSE(cache.kv.reserve(live, kPage * 9));
  EXPECT_EQ(cache.kv.stats().n_evicted_pages, 0);
  EXPECT_EQ(cache.kv.peek(test::random_tokens(48, 1), {}), 47);
}

TEST(KvManager, ALockedPathIsNeverEvicted) {
  Cache cache(8);
  const Tokens tokens = test::random_tokens(64, 1);
  cache.run(tokens);
  KvMatch found = cache.kv.match(prefix(tokens, 33), {});
  KvSequence live;
  EXPECT_FALSE(cache.kv.reserve(live, kPage * 7));
  ASSERT_TRUE(cache.kv.reserve(live, kPage * 6));
  cache.check_all({&found.sequence, &live});
  EXPECT_EQ(cache.kv.stats().n_cached, 2);
  cache.kv.release(std::move(found.sequence));
  ASSERT_TRUE(cache.kv.reserve(live, kPage * 8));
  cache.kv.release(std::move(live));
}

// A conversation fills the pool to the last page, its own half-filled page included.
TEST(KvManager, ASequenceMayHaveTheWholePool) {
  Cache cache(8);
  Tokens tokens = test::random_tokens(20, 1);
  for (int64_t n = 20; n <= kPage * 8; n += 9) {
    tokens.resize(static_cast<size_t>(n), 5);
    EXPECT_EQ(cache.run(tokens), n == 20 ? 0 : n - 9);
  }
  tokens.resize(kPage * 8, 6);
  cache.run(tokens);
  EXPECT_EQ(cache.kv.n_available_pages(), 8);
}

TEST(KvManager, ALongerTailReplacesAShorterOne) {
  Cache cache(8);
  const Tokens tokens = test::random_tokens(64, 1);
  for (const size_t n : {10u, 30u, 50u, 64u}) cache.run(prefix(tokens, n));
  EXPECT_EQ(cache.kv.n_free_pages(), 4);
  cache.kv.clear();
  EXPECT_EQ(cache.kv.n_free_pages(), 8);
}

TEST(KvManager, RequestsShareAPublishedPrompt) {
  Cache cache(32);
  const Tokens prompt = test::random_tokens(40, 1);
  KvMatch first = cache.kv.match(prompt, {});
  KvMatch second = cache.kv.match(prompt, {});  // admitted before the first was computed
  ASSERT_TRUE(cache.append(first.sequence, prompt));
  cache.kv.publish(first.sequence);
  ASSERT_TRUE(cache.append(second.sequence, prompt));
  cache.kv.publish(second.sequence);  // takes over the first one's pages
  KvMatch third = cache.kv.match(prompt, {});
  EXPECT_EQ(third.report.n_cached, 32);
  EXPECT_EQ(cache.kv.n_free_pages(), 32 - 2 - 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first.sequence.pages[i], second.sequence.pages[i]);
    EXPECT_EQ(first.sequence.pages[i], third.sequence.pages[i]);
  }
  cache.check_all({&first.sequence, &second.sequence, &third.sequence});
  cache.kv.keep(std::move(first.sequence));
  cache.kv.keep(std::move(second.sequence));
  cache.kv.release(std::move(third.sequence));
  cache.check_all({});
  EXPECT_EQ(cache.kv.n_free_pages(), 32 - 3);
}

TEST(KvManager, NamespacesNeverShare) {
  Cache cache(16);
  const Tokens tokens = test::random_tokens(40, 1);
  const CacheNamespace adapter{.variant = "adapter"};
  const CacheNamespace format{.k_format = KvFormat::kF32};
  cache.run(tokens);
  EXPECT_EQ(cache.run(tokens, adapter), 0);
  EXPECT_EQ(cache.run(tokens, format), 0);
  EXPECT_EQ(cache.run(tokens, adapter), 39);
  KvMatch other = cache.kv.match(tokens, {.model = 1});
  EXPECT_EQ(other.report.cause, MissCause::kOtherNamespace);
  cache.kv.release(std::move(other.sequence));
}

TEST(KvManager, UncachedSequencesLeaveNothing) {
  Cache cache(8);
  const Tokens tokens = test::random_tokens(40, 1);
  cache.run(tokens);
  KvMatch alone = KvManager::uncached();
  EXPECT_EQ(alone.report.cause, MissCause::kDisabled);
  ASSERT_TRUE(cache.append(alone.sequence, tokens));
  cache.kv.publish(alone.sequence);
  KvSequence branch = cache.kv.fork(alone.sequence);
  ASSERT_TRUE(cache.append(branch, {1}));
  cache.check_all({&alone.sequence, &branch});
  cache.kv.keep(std::move(alone.sequence));
  cache.kv.keep(std::move(branch));
  EXPECT_EQ(cache.kv.n_free_pages(), 5);
}

TEST(KvManager, ReportsWhyAPromptWasMissed) {
  Cache cache(8);
  const auto report = [&](const Tokens& tokens) {
    KvMatch found = cache.kv.match(tokens, {});
    cache.kv.release(std::move(found.sequence));
    return found.report;
  };
  const Tokens tokens = test::random_tokens(60, 1);
  EXPECT_EQ(report(tokens).cause, MissCause::kEmpty);
  cache.run(tokens);
  EXPECT_EQ(report(tokens).cause, MissCause::kNone);
  Tokens longer = tokens;
  longer.resize(90, 3);
  EXPECT_EQ(report(longer).cause, MissCause::kNone);
  EXPECT_EQ(report(longer).n_cached, 60);
  for (const size_t at : {0u, 7u, 16u, 37u, 58u}) {
    Tokens edited = tokens;
    edited[at] = 1000;
    const CacheReport found = report(edited);
    EXPECT_EQ(found.cause, MissCause::kDiffers) << at;
    EXPECT_EQ(found.first_difference, static_cast<int64_t>(at));
    ASSERT_FALSE(found.cached_there.empty());
    EXPECT_EQ(found.cached_there[0], tokens[at]);
  }
  KvSequence live;
  ASSERT_TRUE(cache.kv.reserve(live, kPage * 7));
  EXPECT_EQ(report(tokens).cause, MissCause::kEvicted);
  EXPECT_EQ(report(tokens).n_cached, kPage);
  EXPECT_EQ(cache.kv.stats().misses[static_cast<size_t>(MissCause::kEvicted)], 2);
  cache.kv.release(std::move(live));
}

// T3.4
TEST(KvManager, ForksDivergeAtEveryOffset) {
  for (int n = 0; n <= kPage + 1; ++n) {
    Cache cache(16);
    KvMatch parent = cache.kv.match({}, {});
    ASSERT_TRUE(cache.append(parent.sequence, test::random_tokens(static_cast<int>(kPage) + n, 1)));
    const int64_t n_free = cache.kv.n_free_pages();
    KvSequence a = cache.kv.fork(parent.sequence);
    KvSequence b = cache.kv.fork(a);
    EXPECT_EQ(cache.kv.n_free_pages(), n_free);
    EXPECT_EQ(cache.kv.stats().n_copied_pages, 0);
    ASSERT_TRUE(cache.append(a, test::random_tokens(20, 2)));
    ASSERT_TRUE(cache.append(parent.sequence, test::random_tokens(20, 3)));
    ASSERT_TRUE(cache.append(b, test::random_tokens(20, 4)));
    EXPECT_EQ(cache.kv.stats().n_copied_pages, n % kPage == 0 ? 0 : 2);  // the last one to write owns the page
    cache.check_all({&parent.sequence, &a, &b});
    cache.kv.keep(std::move(parent.sequence));
    cache.kv.keep(std::move(a));
    cache.kv.release(std::move(b));
    cache.check_all({});
  }
}

// Rollback to every length, into pages that are private, shared with a fork, or in the tree.
TEST(KvManager, TruncateGivesPagesBackExactly) {
  const Tokens tokens = test::random_tokens(70, 1);
  for (size_t n = 0; n <= tokens.size(); ++n) {
    for (const bool published : {false, true}) {
      Cache cache(16);
      KvMatch live = cache.kv.match({}, {});
      ASSERT_TRUE(cache.append(live.sequence, tokens));
      ASSERT_TRUE(cache.kv.reserve(live.sequence, 100));
      if (published) cache.kv.publish(live.sequence);
      cache.kv.truncate(live.sequence, static_cast<int64_t>(n));
      EXPECT_EQ(static_cast<int64_t>(live.sequence.pages.size()), cache.kv.n_pages_for(static_cast<int64_t>(n)));
      cache.check_all({&live.sequence});
      EXPECT_EQ(cache.kv.n_available_pages() + static_cast<int64_t>(n) / kPage +
                    (!published && n % kPage != 0 ? 1 : 0) + (published && n >= 64 && n % kPage != 0 ? 1 : 0),
                16);
      ASSERT_TRUE(cache.append(live.sequence, {3, 4, 5}));
      cache.check_all({&live.sequence});
      cache.kv.release(std::move(live.sequence));
      if (published) {
        EXPECT_EQ(cache.run(tokens), 64);
      }
    }
  }
}

TEST(KvManager, SwapBringsTheSameBytesBack) {
  const Tokens tokens = test::random_tokens(70, 1);
  for (const bool shared : {false, true}) {
    for (const bool evicted : {false, true}) {
      Cache cache(16, 1 << 20);
      KvMatch live = cache.kv.match(tokens, {});
      ASSERT_TRUE(cache.append(live.sequence, tokens));
      cache.kv.publish(live.sequence);
      KvMatch other;
      if (shared) other = cache.kv.match(prefix(tokens, 33), {});
      std::optional<HostKv> host = cache.kv.swap_out(live.sequence);
      ASSERT_TRUE(host.has_value());
      EXPECT_EQ(host->bytes(), (shared ? 3 : 5) * cache.kv.page_bytes());
      EXPECT_EQ(cache.kv.stats().swapped_bytes, host->bytes());
      cache.check_all({&other.sequence});
      KvSequence filler;
      if (evicted) {
        ASSERT_TRUE(cache.kv.reserve(filler, cache.kv.n_available_pages() * kPage));
        EXPECT_FALSE(cache.kv.swap_in(*host, live.sequence));
        cache.kv.release(std::move(filler));
      }
      ASSERT_TRUE(cache.kv.swap_in(*host, live.sequence));
      EXPECT_EQ(live.sequence.tokens, tokens);
      EXPECT_EQ(cache.kv.stats().swapped_bytes, 0);
      EXPECT_EQ(cache.kv.stats().n_swapped_in_pages, evicted ? (shared ? 3 : 5) : 1);
      cache.check_all({&other.sequence, &live.sequence});
      cache.kv.keep(std::move(live.sequence));
      cache.kv.release(std::move(other.sequence));
      cache.check_all({});
    }
  }
}

// Pages that others used are not swapped. When the others go and the pages too, the rest is computed again.
TEST(KvManager, ASwappedSequenceMayLoseItsSharedPages) {
  const Tokens tokens = test::random_tokens(70, 1);
  Cache cache(16, 1 << 20);
  KvMatch live = cache.kv.match(tokens, {});
  ASSERT_TRUE(cache.append(live.sequence, tokens));
  cache.kv.publish(live.sequence);
  KvMatch other = cache.kv.match(prefix(tokens, 40), {});
  std::optional<HostKv> host = cache.kv.swap_out(live.sequence);
  ASSERT_TRUE(host.has_value());
  cache.kv.release(std::move(other.sequence));
  KvSequence filler;
  ASSERT_TRUE(cache.kv.reserve(filler, 15 * kPage));
  cache.kv.release(std::move(filler));
  ASSERT_TRUE(cache.kv.swap_in(*host, live.sequence));
  EXPECT_EQ(live.sequence.tokens, prefix(tokens, 16));
  cache.check_all({&live.sequence});
  EXPECT_EQ(cache.kv.stats().swapped_bytes, 0);
  cache.kv.release(std::move(live.sequence));
}

TEST(KvManager, SwapHasABudget) {
  Cache cache(16, 2 * kPage * (8 * 4 * 2 + 2 * (8 * 4 + 8 * 2)));
  KvSequence a, b;
  ASSERT_TRUE(cache.append(a, test::random_tokens(32, 1)));
  ASSERT_TRUE(cache.append(b, test::random_tokens(1, 1)));
  std::optional<HostKv> host = cache.kv.swap_out(a);
  ASSERT_TRUE(host.has_value());
  EXPECT_FALSE(cache.kv.swap_out(b).has_value());
  EXPECT_EQ(b.tokens.size(), 1u);
  cache.kv.discard(std::move(*host));
  host = cache.kv.swap_out(b);
  ASSERT_TRUE(host.has_value());
  cache.kv.discard(std::move(*host));
  EXPECT_EQ(cache.kv.n_free_pages(), 16);
}

// T4.5
TEST(KvManager, ASharedPromptLiesInMemoryOnce) {
  constexpr int64_t kRequests = 100, kPrompt = 5000, kSuffix = 20;
  Cache cache(kPrompt / kPage + 1 + kRequests * 3);
  const Tokens system = test::random_tokens(kPrompt, 1);
  int64_t n_computed = 0;
  std::vector<KvSequence> live;
  for (int64_t i = 0; i < kRequests; ++i) {
    Tokens tokens = system;
    for (int64_t j = 0; j < kSuffix; ++j) tokens.push_back(static_cast<int32_t>(i * kSuffix + j));
    KvMatch found = cache.kv.match(tokens, {});
    n_computed += static_cast<int64_t>(tokens.size()) - found.report.n_cached;
    ASSERT_TRUE(cache.kv.reserve(found.sequence, static_cast<int64_t>(tokens.size())));
    cache.kv.append(found.sequence, std::span(tokens).subspan(found.sequence.tokens.size()));
    if (i == 0) {
      // The first request ends, so that its last, half-filled page of the shared part serves the others too.
      cache.kv.keep(std::move(found.sequence));
    } else {
      cache.kv.publish(found.sequence);
      live.push_back(std::move(found.sequence));
    }
  }
  EXPECT_EQ(n_computed, kPrompt + kRequests * kSuffix);
  EXPECT_EQ(cache.kv.stats().n_cached + cache.kv.stats().n_private, kPrompt / kPage + kRequests * 2);
  for (const KvSequence& sequence : live) {
    EXPECT_TRUE(std::equal(sequence.pages.begin(), sequence.pages.begin() + kPrompt / kPage, live[0].pages.begin()));
  }
  for (KvSequence& sequence : live) cache.kv.keep(std::move(sequence));
  cache.check_all({});
}

TEST(KvManagerWindows, PagesBehindTheWindowAreGivenBack) {
  for (const int window : {1, 2, 16, 17, 24, 33}) {
    Cache cache(40, 0, {.tokens = window, .n_pages = 8});
    KvMatch kept = cache.kv.match({}, {});
    KvSequence uncached;
    for (const Tokens& tokens = test::random_tokens(200, 1); const int32_t token : tokens) {
      ASSERT_TRUE(cache.append(kept.sequence, {token}));
      ASSERT_TRUE(cache.append(uncached, {token}));
      cache.check_all({&kept.sequence, &uncached});
      const auto n = static_cast<int64_t>(uncached.tokens.size());
      const int64_t first_seen = std::max<int64_t>(0, n - window + 1);
      EXPECT_EQ(cache.kv.n_pinned(uncached), cache.kv.n_pages_for(n) - first_seen / kPage) << n;
      EXPECT_LE(cache.kv.n_pinned(uncached), cache.kv.n_window_pages_for(n));
    }
    // Those of a sequence that is kept stay as long as nobody wants them.
    EXPECT_LE(cache.kv.stats().n_free_window, 1);  // what `uncached` gave back last
    EXPECT_GT(cache.kv.stats().n_idle_window, 0);
    cache.kv.keep(std::move(kept.sequence));
    cache.kv.release(std::move(uncached));
    cache.check_all({});
    cache.kv.clear();
    EXPECT_EQ(cache.kv.stats().n_free_window, 8);
  }
}

// A prefix whose end has lost window pages serves as far as others are left, and is whole again when it was computed.
TEST(KvManagerWindows, APrefixServesAsFarAsItsWindowIsThere) {
  Cache cache(40, 0, {.tokens = 24, .n_pages = 8});
  const Tokens tokens = test::random_tokens(100, 1);
  EXPECT_EQ(cache.run(tokens), 0);
  EXPECT_EQ(cache.run(tokens), 99);
  const Tokens shorter = prefix(tokens, 60);
  EXPECT_EQ(cache.kv.peek(shorter, {}), 59);
  EXPECT_EQ(cache.run(shorter), 59);
  // Three of the seven window pages are left, those used last: of pages 2, 3 and 5.
  KvSequence filler;
  ASSERT_TRUE(cache.append(filler, test::random_tokens(16, 2)));
  ASSERT_TRUE(cache.kv.reserve(filler, kPage * 5));
  EXPECT_EQ(cache.kv.peek(tokens, {}), 64);
  KvMatch found = cache.kv.match(tokens, {});
  EXPECT_EQ(found.report.cause, MissCause::kEvicted);
  EXPECT_EQ(found.report.n_cached, 64);
  EXPECT_EQ(found.report.first_difference, -1);
  EXPECT_TRUE(found.report.cached_there.empty());
  cache.check_all({&found.sequence, &filler});
  cache.kv.release(std::move(found.sequence));
  EXPECT_EQ(cache.kv.stats().n_evicted_pages, 0);
  EXPECT_GT(cache.kv.stats().n_evicted_window_pages, 0);
  ASSERT_TRUE(cache.kv.reserve(filler, kPage * 8));
  EXPECT_EQ(cache.kv.peek(tokens, {}), 0);
  found = cache.kv.match(tokens, {});
  EXPECT_EQ(found.report.cause, MissCause::kEvicted);
  cache.kv.release(std::move(found.sequence));
  cache.kv.release(std::move(filler));
  EXPECT_EQ(cache.run(tokens), 0);
  EXPECT_EQ(cache.run(tokens), 99);
  EXPECT_EQ(cache.kv.stats().n_cached, 7);  // computed again, the pages are those that the tree has had
  cache.check_all({});
}

// What window pages are left, peek() says what match() finds.
TEST(KvManagerWindows, PeekAgreesWithMatch) {
  std::mt19937 random(5);
  Cache cache(60, 0, {.tokens = 40, .n_pages = 9});
  for (int i = 0; i < 300; ++i) {
    Tokens tokens = test::random_tokens(20 + static_cast<int>(random() % 120), random() % 4);
    if (random() % 2 == 0) tokens[random() % tokens.size()] = 1;
    const int64_t expected = cache.kv.peek(tokens, {});
    KvMatch found = cache.kv.match(tokens, {});
    ASSERT_EQ(found.report.n_cached, expected);
    cache.check_all({&found.sequence});
    if (random() % 3 != 0) {
      (void)cache.append(found.sequence, Tokens(tokens.begin() + expected, tokens.end()));
      cache.kv.keep(std::move(found.sequence));
    } else {
      cache.kv.release(std::move(found.sequence));
    }
  }
}

TEST(KvManagerWindows, SwapBringsLostWindowPagesBack) {
  const Tokens tokens = test::random_tokens(70, 1);
  Cache cache(32, 1 << 20, {.tokens = 24, .n_pages = 6});
  KvMatch live = cache.kv.match(tokens, {});
  ASSERT_TRUE(cache.append(live.sequence, prefix(tokens, 40)));
  ASSERT_TRUE(cache.append(live.sequence, Tokens(tokens.begin() + 40, tokens.end())));
  cache.kv.publish(live.sequence);
  KvMatch other = cache.kv.match(tokens, {});  // so that its pages stay where they are
  ASSERT_EQ(other.report.n_cached, 64);
  std::optional<HostKv> host = cache.kv.swap_out(live.sequence);
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(host->bytes(), cache.kv.page_bytes() + 3 * cache.kv.window_page_bytes());
  ASSERT_TRUE(cache.append(other.sequence, test::random_tokens(60, 9)));  // past its window on the shared pages
  KvSequence filler;
  ASSERT_TRUE(cache.kv.reserve(filler, kPage * 4));
  EXPECT_FALSE(cache.kv.swap_in(*host, live.sequence));
  cache.check_all({&other.sequence, &filler});
  cache.kv.release(std::move(filler));
  ASSERT_TRUE(cache.kv.swap_in(*host, live.sequence));
  EXPECT_EQ(live.sequence.tokens, tokens);
  cache.check_all({&other.sequence, &live.sequence});
  cache.kv.release(std::move(live.sequence));
  cache.kv.release(std::move(other.sequence));
}

// Where its window pages are gone a sequence cannot go back to; it goes back further.
TEST(KvManagerWindows, TruncateGoesBackToWhatCanBeGoneOnFrom) {
  Cache cache(32, 0, {.tokens = 24, .n_pages = 8});
  const Tokens tokens = test::random_tokens(150, 1);
  for (const int64_t n : {150, 149, 144, 143, 140, 100, 20, 0}) {
    KvSequence live;
    for (size_t i = 0; i < tokens.size(); i += 50) {
      ASSERT_TRUE(cache.append(
          live, Tokens(tokens.begin() + static_cast<ptrdiff_t>(i), tokens.begin() + static_cast<ptrdiff_t>(i) + 50)));
    }
    cache.kv.truncate(live, n);  // the token after 150 sees 127, in the page of 112; the one after 135 sees that
    EXPECT_EQ(static_cast<int64_t>(live.tokens.size()), n >= 135 ? n : 0);
    cache.check_all({&live});
    ASSERT_TRUE(cache.append(live, {1, 2, 3}));
    cache.check_all({&live});
    cache.kv.release(std::move(live));
  }
}

class RandomUse : public testing::TestWithParam<Windows> {};

// T3.2, T3.3: everything at random over a pool that is too small; contents always those of the sequence's own tokens.
TEST_P(RandomUse, LosesNoPageAndMixesNothing) {
  const int64_t window = GetParam().tokens;
  for (const uint32_t seed : {1u, 2u, 3u}) {
    std::mt19937 random(seed);
    Cache cache(24, 20 * kPage * 160, GetParam());
    std::vector<KvSequence> live;
    std::vector<HostKv> swapped;
    const auto some_tokens = [&](size_t n) {
      Tokens tokens(n);
      for (int32_t& token : tokens) token = random() % 40 == 0 ? 1 : 0;  // prefixes collide all the time
      return tokens;
    };
    const auto take = [&](auto& from) {
      const auto at = static_cast<ptrdiff_t>(random() % from.size());
      auto taken = std::move(from[static_cast<size_t>(at)]);
      from.erase(from.begin() + at);
      return taken;
    };
    const CacheNamespace spaces[] = {{}, {.variant = "other"}};
    for (int i = 0; i < 34000; ++i) {
      const uint32_t choice = random() % 12;
      if (live.empty() || choice == 0) {
        const Tokens tokens = some_tokens(random() % 60);
        KvMatch found =
            random() % 8 == 0 ? KvManager::uncached() : cache.kv.match(tokens, spaces[random() % 8 == 0 ? 1 : 0]);
        cache.check(found.sequence);
        live.push_back(std::move(found.sequence));
        continue;
      }
      KvSequence& sequence = live[random() % live.size()];
      if (choice <= 4) {
        (void)cache.append(sequence, some_tokens(random() % 20));
      } else if (choice == 5) {
        const size_t n = random() % (sequence.tokens.size() + 1);
        cache.kv.truncate(sequence, static_cast<int64_t>(n));
        EXPECT_TRUE(sequence.tokens.size() == n || (window > 0 && sequence.tokens.size() < n));
      } else if (choice == 6) {
        cache.kv.publish(sequence);
      } else if (choice == 7 && live.size() < 6) {
        live.push_back(cache.kv.fork(sequence));
      } else if (choice == 8) {
        if (std::optional<HostKv> host = cache.kv.swap_out(sequence)) {
          live.erase(live.begin() + (&sequence - live.data()));
          swapped.push_back(std::move(*host));
        }
      } else if (choice == 9 && !swapped.empty()) {
        HostKv host = take(swapped);
        const Tokens before = host.tokens;
        KvSequence back;
        if (cache.kv.swap_in(host, back)) {
          EXPECT_TRUE(back.tokens == before || back.tokens.size() % kPage == 0);
          live.push_back(std::move(back));
        } else if (random() % 2 == 0) {
          cache.kv.discard(std::move(host));
        } else {
          swapped.push_back(std::move(host));
        }
      } else if (choice == 10) {
        cache.kv.keep(take(live));
      } else if (choice == 11) {
        cache.kv.release(take(live));
      }
      if (i % 8 != 0) continue;
      std::vector<const KvSequence*> pointers;
      for (const KvSequence& one : live) pointers.push_back(&one);
      cache.kv.check_invariants(pointers);
      for (const KvSequence& one : live) cache.check(one);
      if (HasFatalFailure()) return;
      const KvStats stats = cache.kv.stats();
      ASSERT_EQ(stats.n_free + stats.n_cached + stats.n_private, 24);
      ASSERT_EQ(stats.n_free_window + stats.n_idle_window + stats.n_pinned_window, GetParam().n_pages);
    }
    for (KvSequence& sequence : live) cache.kv.release(std::move(sequence));
    cache.kv.clear();
    cache.check_all({});
    EXPECT_EQ(cache.kv.n_free_pages(), 24);
    EXPECT_EQ(cache.kv.stats().n_free_window, GetParam().n_pages);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, RandomUse,
                         testing::Values(Windows{}, Windows{24, 9}, Windows{1, 6}, Windows{40, 24}, Windows{17, 13}));

}  // namespace
}  // namespace loci
