// SplitPlan: how the attention of a ragged batch is cut into units of work and dealt to threads.
//
// A unit is (chunk, split): a chunk is some query tokens with all query heads of one KV head, a split is 256 keys.
// Threads get contiguous ranges of a level's list of units, balanced by cost. The arithmetic of a (row, split) and the
// order in which a row's splits are merged do not depend on the plan.
//
// Shared prefixes (cascade, Ye et al. 2025, arXiv:2501.01005): sequences whose page lists begin with the same pages
// share the whole splits of that beginning. A chunk of level 0 then holds the rows of all of them, so that those keys
// are read once; the rows' states are kept, and the chunks of the next level go on with them. Levels are as many as
// the tree of shared beginnings is deep, and one more for what each sequence has for itself.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/mask.h"

namespace loci {

struct AttentionChunk {
  int32_t seq = 0;  // whose pages hold the keys
  int32_t kv_head = 0;
  int32_t token_begin = 0, token_end = 0;  // range of SplitPlan::tokens
  int32_t split_begin = 0, split_end = 0;  // splits in which any row sees a key; at least one
  bool resumes = false;                    // goes on with the states that an earlier level kept; else from nothing
  bool keeps = false;                      // keeps the states for a later level; else the rows are done
  int32_t n_splits() const { return split_end - split_begin; }
  int32_t n_tokens() const { return token_end - token_begin; }
};

// A place in the list of units.
struct UnitCursor {
  int32_t chunk = 0;
  int32_t split = 0;
  bool operator==(const UnitCursor&) const = default;
};

// Chunks that depend only on those of earlier levels.
struct PlanLevel {
  int32_t chunk_begin = 0, chunk_end = 0;
  std::vector<UnitCursor> bounds;  // [n_threads + 1]; thread i owns the units [bounds[i], bounds[i + 1])
};

struct SplitPlan {
  std::vector<int32_t> tokens;         // rows of the batch: first all in order, then those of shared chunks
  std::vector<AttentionChunk> chunks;  // level by level
  std::vector<PlanLevel> levels;
  std::vector<int32_t> kept;  // [n_rows] where the row's state is kept between levels, or -1
  int32_t n_kept = 0;
  int64_t tiles_read = 0;  // (KV head, tile of 16 tokens) whose K and V are read, each as often as it is
};

struct SplitPlanInput {
  std::span<const int32_t> q_indptr;   // [n_seqs + 1]
  std::span<const int32_t> positions;  // [n_rows]
  int32_t n_kv_heads = 0;
  int32_t group = 0;       // query heads per KV head
  int32_t window = 0;      // 0: none
  int32_t chunk_rows = 0;  // most (token, head) rows in a chunk; a chunk holds one token at least
  int32_t n_threads = 1;

  // For shared prefixes; shared_chunk_rows = 0: none are looked for.
  std::span<const int32_t> page_indptr = {};   // [n_seqs + 1]
  std::span<const int32_t> page_indices = {};  // physical page ids
  int32_t page_size = 0;
  int32_t shared_chunk_rows = 0;  // most rows in a chunk of several sequences
};

// Fills `plan`, keeping its memory.
// Invariants: a level's chunks are ordered by (sequences, KV head, tokens); every (row, KV head, visible split) lies in
// exactly one chunk, a row's splits ascend over the levels, the last level finishes every row; bounds ascend; a bound
// inside a chunk occurs only when chunks are too few to balance the threads by whole chunks.
void make_split_plan(const SplitPlanInput& input, SplitPlan& plan);

}  // namespace loci
