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
int64_t walk(const SplitPlan& plan, const SplitPlanInput& input, int thread,
             std::map<std::tuple<int, int, int>, int>& seen) {
  int64_t work = 0;
  UnitCursor unit = plan.bounds[thread];
  while (!(unit == plan.bounds[thread + 1])) {
    const AttentionChunk& chunk = plan.chunks[unit.chunk];
    EXPECT_GE(unit.split, chunk.split_begin);
    EXPECT_LT(unit.split, chunk.split_end);
    for (int token = chunk.token_begin; token < chunk.token_end; ++token) {
      const int n = keys_in_split(visible_keys(input.positions[token], input.window), unit.split).size();
      if (n > 0) ++seen[{token, chunk.kv_head, unit.split}];
      work += n;
    }
    if (++unit.split == chunk.split_end) {
      ++unit.chunk;
      unit.split = unit.chunk < int(plan.chunks.size()) ? plan.chunks[unit.chunk].split_begin : 0;
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
          ASSERT_EQ(plan.bounds.size(), size_t(n_threads + 1));
          std::map<std::tuple<int, int, int>, int> seen;
          int64_t total = 0, most = 0;
          for (int thread = 0; thread < n_threads; ++thread) {
            const int64_t work = walk(plan, input, thread, seen);
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
