// SplitPlan: how the attention of a ragged batch is cut into units of work and dealt to threads.
//
// A unit is (chunk, split): a chunk is a run of query tokens of one sequence with all query heads of one KV head,
// a split is 256 keys. Threads get contiguous ranges of the list of units, balanced by cost. The arithmetic of a
// (row, split) and the order in which a row's splits are merged do not depend on the plan.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/mask.h"

namespace loci {

struct AttentionChunk {
  int32_t seq = 0;
  int32_t kv_head = 0;
  int32_t token_begin = 0, token_end = 0;  // rows of the batch
  int32_t split_begin = 0, split_end = 0;  // splits in which any row sees a key
  int32_t n_splits() const { return split_end - split_begin; }
};

// A place in the list of units.
struct UnitCursor {
  int32_t chunk = 0;
  int32_t split = 0;
  bool operator==(const UnitCursor&) const = default;
};

struct SplitPlan {
  std::vector<AttentionChunk> chunks;
  std::vector<UnitCursor> bounds;  // [n_threads + 1]; thread i owns the units [bounds[i], bounds[i + 1])
};

struct SplitPlanInput {
  std::span<const int32_t> q_indptr;   // [n_seqs + 1]
  std::span<const int32_t> positions;  // [n_rows]
  int32_t n_kv_heads = 0;
  int32_t group = 0;       // query heads per KV head
  int32_t window = 0;      // 0: none
  int32_t chunk_rows = 0;  // most (token, head) rows in a chunk; a chunk holds one token at least
  int32_t n_threads = 1;
};

// Fills `plan`, keeping its memory.
// Invariants: chunks are ordered by (sequence, KV head, tokens) and cover every row once per KV head; bounds ascend;
// a bound inside a chunk occurs only when chunks are too few to balance the threads by whole chunks.
void make_split_plan(const SplitPlanInput& input, SplitPlan& plan);

}  // namespace loci
