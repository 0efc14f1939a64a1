// make_split_plan: every (row, KV head, split) exactly once, in order, balanced.
#include "kernels/attention/split_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace loci {
namespace {

struct Ragged {
  std::vector<int32_t> q_indptr{0}, positions;
  void add(int first_position, int n) {
    for (int i = 0; i < n; ++i) positions.push_back(first_position + i);
    q_indptr.push_back(static_cast<int32_t>(positions.size()));
  }
};

// Keys times rows of a thread's range; counts each (token, KV head, split).
int64_t walk(const SplitPlan& plan, const PlanLevel& level, const SplitPlanInput& input, int thread,
             std::map<std::tuple<int, int, int>, int>& seen) {
  int64_t work = 0;
  UnitCursor unit = level.bounds[thread];
  while (!(unit == level.bounds[thread + 1])) {
    const AttentionChunk& chunk = plan.chunks[unit.chunk];
    EXPECT_GE(unit.split, chunk.split_begin);
    EXPECT_LT(unit.split, chunk.split_end);
    for (int i = chunk.token_begin; i < chunk.token_end; ++i) {
      const int token = plan.tokens[i];
      const int n = keys_in_split(visible_keys(input.positions[token], input.window), unit.split).size();
      if (n > 0) ++seen[{token, chunk.kv_head, unit.split}];
      work += n;
    }
    if (++unit.split == chunk.split_end) {
      ++unit.chunk;
      unit.split = unit.chunk < level.chunk_end ? plan.chunks[unit.chunk].split_begin : 0;
    }
  }
  return work;
}

TEST(SplitPlan, CoversEveryKeyOnceAndBalances) {
  std::vector<Ragged> batches(6);
  batches[0].add(0, 1);
  batches[1].add(8191, 1);
  batches[2].add(0, 512);
  batches[3].add(7000, 64);
  for (const int n : {5, 4000, 77, 2, 300, 1000, 0, 9}) batches[4].add(n, n == 77 ? 100 : 1);
  batches[5].q_indptr.push_back(0);  // a sequence without rows
  for (const Ragged& batch : batches) {
    for (const int window : {0, 1, 100, 512}) {
      for (const int group : {1, 7, 200}) {
        for (const int n_threads : {1, 2, 3, 16}) {
          const SplitPlanInput input{.q_indptr = batch.q_indptr,
                                     .positions = batch.positions,
                                     .n_kv_heads = 2,
                                     .group = group,
                                     .window = window,
                                     .chunk_rows = 128,
                                     .n_threads = n_threads};
          SplitPlan plan;
          make_split_plan(input, plan);
          ASSERT_EQ(plan.levels.size(), 1u);
          ASSERT_EQ(plan.levels[0].bounds.size(), size_t(n_threads + 1));
          std::map<std::tuple<int, int, int>, int> seen;
          int64_t total = 0, most = 0;
          for (int thread = 0; thread < n_threads; ++thread) {
            const int64_t work = walk(plan, plan.levels[0], input, thread, seen);
            total += work;
            most = std::max(most, work);
          }
          size_t expected = 0;
          for (size_t row = 0; row < batch.positions.size(); ++row) {
            const KeyRange keys = visible_keys(batch.positions[row], window);
            expected += 2 * (size_t((keys.end - 1) / kSplitTokens - keys.begin / kSplitTokens) + 1);
          }
          ASSERT_EQ(seen.size(), expected);
          for (const auto& [unit, count] : seen) ASSERT_EQ(count, 1);
          for (const AttentionChunk& chunk : plan.chunks) {
            ASSERT_TRUE((chunk.token_end - chunk.token_begin) * group <= 128 ||
                        chunk.token_end - chunk.token_begin == 1);
          }
          // No thread has more than its share and one unit (or, with many chunks, one chunk of up to 128 tokens).
          if (n_threads > 1 && total > 0) {
            const int64_t share = total / n_threads;
            EXPECT_LE(most, share + std::max<int64_t>(share / 4, 128 * kSplitTokens));
          }
        }
      }
    }
  }
}

// Sequences whose pages are a common beginning and pages of their own, one page after the other.
struct Shared : Ragged {
  std::vector<int32_t> page_indptr{0}, pages;
  int32_t next_page = 100000;
  // n rows from first_position on; the first `common[i]` tokens lie in the pages of prefix i, the lengths ascend.
  void add_sequence(int first_position, int n, int page_size, const std::vector<std::pair<int, int>>& prefixes) {
    add(first_position, n);
    const int n_pages = (first_position + n + page_size - 1) / page_size;
    for (int page = 0; page < n_pages; ++page) {
      int32_t id = -1;
      for (const auto& [prefix, common] : prefixes) {
        if (id < 0 && page < common / page_size) id = prefix * 1000 + page;
      }
      pages.push_back(id >= 0 ? id : next_page++);
    }
    page_indptr.push_back(static_cast<int32_t>(pages.size()));
  }
  SplitPlanInput input(int page_size, int n_threads, int window = 0) const {
    return {.q_indptr = q_indptr,
            .positions = positions,
            .n_kv_heads = 2,
            .group = 3,
            .window = window,
            .chunk_rows = 128,
            .n_threads = n_threads,
            .page_indptr = page_indptr,
            .page_indices = pages,
            .page_size = page_size,
            .shared_chunk_rows = 512};
  }
};

// Every (row, KV head, visible split) once; a row's splits ascend from level to level; states are kept and resumed.
void expect_covers(const SplitPlan& plan, const SplitPlanInput& input) {
  std::map<std::tuple<int, int, int>, int> seen;
  std::map<std::pair<int, int>, int> next_split;  // of a (row, KV head), after the levels so far
  for (const PlanLevel& level : plan.levels) {
    for (int thread = 0; thread < input.n_threads; ++thread) walk(plan, level, input, thread, seen);
    for (int c = level.chunk_begin; c < level.chunk_end; ++c) {
      const AttentionChunk& chunk = plan.chunks[c];
      ASSERT_EQ(chunk.keeps, &level != &plan.levels.back());
      for (int i = chunk.token_begin; i < chunk.token_end; ++i) {
        int& next = next_split[{plan.tokens[i], chunk.kv_head}];
        ASSERT_TRUE(chunk.resumes || next == 0);
        ASSERT_GE(chunk.split_begin, next);
        next = chunk.split_end;
        if (chunk.keeps || chunk.resumes) {
          ASSERT_GE(plan.kept[plan.tokens[i]], 0);
        }
      }
    }
  }
  size_t expected = 0;
  for (const int32_t position : input.positions) {
    const KeyRange keys = visible_keys(position, input.window);
    expected += 2 * (size_t((keys.end - 1) / kSplitTokens - keys.begin / kSplitTokens) + 1);
  }
  ASSERT_EQ(seen.size(), expected);
  for (const auto& [unit, count] : seen) ASSERT_EQ(count, 1);
}

int64_t tiles(int tokens) { return (tokens + 15) / 16; }

// K and V of a prefix of S tokens and of B suffixes of U tokens are read once: S + B U (algorithms: cascade).
TEST(SplitPlan, ReadsASharedPrefixOnce) {
  for (const int page_size : {16, 48, 64, 512}) {
    Shared batch;
    for (int i = 0; i < 16; ++i) batch.add_sequence(2047 + i, 1, page_size, {{1, 1900}});
    const int shared = 1900 / page_size * page_size / kSplitTokens * kSplitTokens;
    SplitPlanInput input = batch.input(page_size, 2);
    SplitPlan plan;
    make_split_plan(input, plan);
    ASSERT_EQ(plan.levels.size(), 2u);
    expect_covers(plan, input);
    int64_t own = 0;
    for (int i = 0; i < 16; ++i) own += tiles(2048 + i) - shared / 16;
    EXPECT_EQ(plan.tiles_read, 2 * (shared / 16 + own)) << "page size " << page_size;

    input.shared_chunk_rows = 0;
    make_split_plan(input, plan);
    ASSERT_EQ(plan.levels.size(), 1u);
    expect_covers(plan, input);
    EXPECT_EQ(plan.tiles_read, 2 * (16 * shared / 16 + own));
    EXPECT_EQ(plan.n_kept, 0);
  }
}

// A tree of beginnings: all share 600 tokens, two halves 1100, three branches of the first half 2000.
TEST(SplitPlan, SharesBeginningsOfSeveralLevels) {
  Shared batch;
  for (const int i : {0, 5, 1, 4, 2, 7, 3, 6}) {  // in no order
    std::vector<std::pair<int, int>> prefixes{{1, 600}, {2 + i / 4, 1100}};
    if (i < 3) prefixes.push_back({4, 2000});
    batch.add_sequence(2500 + 7 * i, 1, 16, prefixes);
  }
  for (const int n_threads : {1, 2, 5}) {
    for (const int window : {0, 100, 700, 1500, 3000}) {
      const SplitPlanInput input = batch.input(16, n_threads, window);
      SplitPlan plan;
      make_split_plan(input, plan);
      expect_covers(plan, input);
      if (window > 0) continue;
      ASSERT_EQ(plan.levels.size(), 4u);
      int64_t expected = 2 * 16 + 2 * 2 * 16 + 3 * 16;  // tiles of splits [0, 2), [2, 4) twice, [4, 7)
      for (int i = 0; i < 8; ++i) expected += tiles(2501 + 7 * i) - (i < 3 ? 7 : 4) * 16;
      EXPECT_EQ(plan.tiles_read, 2 * expected);
    }
  }
}

TEST(SplitPlan, SharesOnlyWhatPays) {
  SplitPlan plan;
  Shared one;
  one.add_sequence(1000, 1, 16, {{1, 900}});
  make_split_plan(one.input(16, 1), plan);
  EXPECT_EQ(plan.levels.size(), 1u) << "nobody to share with";

  Shared close;  // the second row lies inside the common pages' second split
  close.add_sequence(1000, 1, 16, {{1, 900}});
  close.add_sequence(300, 1, 16, {{1, 304}});
  make_split_plan(close.input(16, 1), plan);
  ASSERT_EQ(plan.levels.size(), 2u);
  EXPECT_EQ(plan.chunks[0].split_end, 1);

  Shared unlike;
  unlike.add_sequence(1000, 1, 16, {{1, 240}});
  unlike.add_sequence(1000, 1, 16, {{1, 240}});
  make_split_plan(unlike.input(16, 1), plan);
  EXPECT_EQ(plan.levels.size(), 1u) << "less than a split in common";

  Shared prompts;  // rows enough to use what is read
  prompts.add_sequence(1000, 400, 16, {{1, 1000}});
  prompts.add_sequence(1000, 400, 16, {{1, 1000}});
  make_split_plan(prompts.input(16, 1), plan);
  EXPECT_EQ(plan.levels.size(), 1u);

  Shared mixed;  // a prompt's chunk among decodes; one sequence has no rows in the call
  for (int i = 0; i < 6; ++i) mixed.add_sequence(1000 + 300 * i, i == 2 ? 64 : i == 4 ? 0 : 1, 16, {{1, 900}});
  for (const int n_threads : {1, 3}) {
    const SplitPlanInput input = mixed.input(16, n_threads);
    make_split_plan(input, plan);
    expect_covers(plan, input);
  }
}

TEST(KeyRanges, WindowsAndSplits) {
  EXPECT_EQ(visible_keys(0, 0).end, 1);
  EXPECT_EQ(visible_keys(9, 4).begin, 6);
  EXPECT_EQ(visible_keys(9, 10).begin, 0);
  EXPECT_EQ(visible_keys(10, 10).begin, 1);
  EXPECT_EQ(keys_in_split({6, 300}, 0).begin, 6);
  EXPECT_EQ(keys_in_split({6, 300}, 0).end, 256);
  EXPECT_EQ(keys_in_split({6, 300}, 1).size(), 44);
  EXPECT_TRUE(keys_in_split({6, 300}, 2).empty());
  EXPECT_TRUE(keys_in_split({300, 400}, 0).empty());
}

}  // namespace
}  // namespace loci
