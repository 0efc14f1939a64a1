// Batch: the flat arrays of one forward pass over several sequences (ragged, CSR). Built once per step.
#pragma once
#include <cstdint>
#include <vector>

namespace loci {

struct Batch {
  std::vector<int32_t> tokens;          // [n_rows]
  std::vector<int32_t> positions;       // [n_rows] 0-based within the row's sequence
  std::vector<int64_t> slots;           // [n_rows] page * page_size + offset: where the row's K/V goes
  std::vector<int32_t> q_indptr{0};     // [n_seqs + 1] rows of each sequence
  std::vector<int32_t> page_indptr{0};  // [n_seqs + 1]
  std::vector<int32_t> page_indices;    // physical pages of each sequence, in order
  std::vector<int32_t> logit_rows;      // rows whose logits are wanted, ascending
  // Further slots for the K/V of some rows: those that branches of a draft tree have in common.
  std::vector<int32_t> copy_rows;   // [n_copies]
  std::vector<int64_t> copy_slots;  // [n_copies]

  int64_t n_rows() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_seqs() const { return static_cast<int64_t>(q_indptr.size()) - 1; }
  bool empty() const { return tokens.empty(); }
};

}  // namespace loci
