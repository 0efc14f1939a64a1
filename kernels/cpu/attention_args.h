// AttendSplit: the argument of the attention kernel, filled by cpu_backend_attention.cc. Plain data only: this header
// is compiled into every instruction set's unit.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/attention/mask.h"
#include "kernels/kv_format/kv_layer.h"

namespace loci::cpu {

// One unit of attention: some rows (query token, head of the group), all of the same sequence and KV head, against
// the keys of one split. Folds the split into the rows' states.
struct AttendSplit {
  KvFormat k_format = KvFormat::kF32, v_format = KvFormat::kF32;
  int head_dim = 0;
  // Tiles of 16 tokens of this split, from its first position on.  [n_tiles]; tiles before the first visible key may
  // be null, as may all those of the next unit.
  const std::byte* const* k_tiles = nullptr;
  const std::byte* const* v_tiles = nullptr;
  int n_tiles = 0;
  const std::byte* const* next_k_tiles = nullptr;  // [next_n_tiles] what the caller will pass next: prefetched
  int next_n_tiles = 0;
  int next_k_step = 0;  // set by the kernel

  int n_rows = 0;
  // Rows in blocks of attention_block_rows(n_rows, ...) rows, each block laid out [head_dim][rows of the block].
  // Scaled: q * scale * log2(e), or q * scale / softcap where a softcap is set.
  const float* q = nullptr;
  const KeyRange* keys = nullptr;  // [n_rows] visible keys, counted from the start of the split; empty: {0, 0}
  float softcap = 0;               // > 0: the score is softcap * log2(e) * tanh(q.k)
  float* states = nullptr;         // [n_rows] SoftmaxStateLayout
  float* scratch = nullptr;        // [rows of a block][kSplitTokens + SoftmaxStateLayout::stride]
  float* expanded = nullptr;       // [2][kSplitTokens, head_dim] to convert K and V once for many rows, or nullptr
};

// Rows are cut into the fewest blocks of at most max_rows, as equal as possible: sizes n / n_blocks, rounded up for
// the first n % n_blocks blocks.
struct RowBlocks {
  int n_blocks, base, n_larger;
  int rows(int block) const { return base + (block < n_larger ? 1 : 0); }
};
inline RowBlocks attention_row_blocks(int n_rows, int max_rows) {
  const int n_blocks = (n_rows + max_rows - 1) / max_rows;
  return {n_blocks, n_rows / n_blocks, n_rows % n_blocks};
}

}  // namespace loci::cpu
