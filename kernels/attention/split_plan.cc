// Cuts attention into chunks and deals (chunk, split) units to threads by cost.
#include "kernels/attention/split_plan.h"

#include <algorithm>

namespace loci {
namespace {

// A unit costs its multiply-adds plus the reading of its keys, which counts as this many rows.
constexpr int64_t kReadRows = 4;
// From this many chunks per thread on, cuts fall between chunks: no state has to be stored, imbalance stays small.
constexpr int64_t kChunksPerThread = 16;

int64_t unit_cost(const SplitPlanInput& input, const AttentionChunk& chunk, int32_t split) {
  int64_t rows_keys = 0;
  int32_t most_keys = 0;
  for (int32_t token = chunk.token_begin; token < chunk.token_end; ++token) {
    const int32_t keys = keys_in_split(visible_keys(input.positions[token], input.window), split).size();
    rows_keys += keys;
    most_keys = std::max(most_keys, keys);
  }
  return rows_keys * input.group + most_keys * kReadRows;
}

int64_t chunk_cost(const SplitPlanInput& input, const AttentionChunk& chunk) {
  int64_t cost = 0;
  for (int32_t split = chunk.split_begin; split < chunk.split_end; ++split) cost += unit_cost(input, chunk, split);
  return cost;
}

void make_chunks(const SplitPlanInput& input, std::vector<AttentionChunk>& chunks) {
  const int32_t n_seqs = static_cast<int32_t>(input.q_indptr.size()) - 1;
  const int32_t chunk_tokens = std::max<int32_t>(1, input.chunk_rows / input.group);
  for (int32_t seq = 0; seq < n_seqs; ++seq) {
    for (int32_t head = 0; head < input.n_kv_heads; ++head) {
      for (int32_t begin = input.q_indptr[seq]; begin < input.q_indptr[seq + 1]; begin += chunk_tokens) {
        AttentionChunk chunk;
        chunk.seq = seq;
        chunk.kv_head = head;
        chunk.token_begin = begin;
        chunk.token_end = std::min(begin + chunk_tokens, input.q_indptr[seq + 1]);
        KeyRange keys = visible_keys(input.positions[begin], input.window);
        for (int32_t token = begin + 1; token < chunk.token_end; ++token) {
          const KeyRange row = visible_keys(input.positions[token], input.window);
          keys.begin = std::min(keys.begin, row.begin);
          keys.end = std::max(keys.end, row.end);
        }
        chunk.split_begin = keys.begin / kSplitTokens;
        chunk.split_end = (keys.end + kSplitTokens - 1) / kSplitTokens;
        chunks.push_back(chunk);
      }
    }
  }
}

}  // namespace

void make_split_plan(const SplitPlanInput& input, SplitPlan& plan) {
  plan.chunks.clear();
  plan.bounds.clear();
  make_chunks(input, plan.chunks);
  const int32_t n_chunks = static_cast<int32_t>(plan.chunks.size());
  const int32_t n_threads = std::max(1, input.n_threads);
  const UnitCursor begin{0, n_chunks > 0 ? plan.chunks[0].split_begin : 0};
  const UnitCursor end{n_chunks, 0};
  plan.bounds.push_back(begin);
  if (n_threads > 1) {
    const bool whole_chunks = n_chunks >= kChunksPerThread * n_threads;
    int64_t total = 0;
    for (const AttentionChunk& chunk : plan.chunks) total += chunk_cost(input, chunk);
    // A unit goes to the thread in whose share of the total cost its middle falls.
    int64_t done = 0;
    const auto cut_before = [&](UnitCursor unit, int64_t cost) {
      while (static_cast<int32_t>(plan.bounds.size()) < n_threads &&
             (2 * done + cost) * n_threads >= 2 * total * static_cast<int64_t>(plan.bounds.size())) {
        plan.bounds.push_back(unit);
      }
      done += cost;
    };
    for (int32_t c = 0; c < n_chunks; ++c) {
      const AttentionChunk& chunk = plan.chunks[c];
      if (whole_chunks) {
        cut_before({c, chunk.split_begin}, chunk_cost(input, chunk));
        continue;
      }
      for (int32_t split = chunk.split_begin; split < chunk.split_end; ++split) {
        cut_before({c, split}, unit_cost(input, chunk, split));
      }
    }
  }
  while (static_cast<int32_t>(plan.bounds.size()) < n_threads + 1) plan.bounds.push_back(end);
}

}  // namespace loci
