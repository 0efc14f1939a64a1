// Drafts in a step: a tree of drafts on pages of its own, as rows of a batch, and what is left of it afterwards.
//
// Each branch is a sequence of its own in the batch, on its own page list, so that a row sees its ancestors and nothing
// else, at their positions: its arithmetic is that of plain decoding to the bit, without a mask. A row that several
// branches contain is computed once, on the first of them, and its K/V are written to all.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/batch.h"
#include "engine/kv/kv_manager.h"
#include "engine/spec/draft_tree.h"

namespace loci {

// The drafts that one sequence brings to a step. Branch 0 lies on the pages of the sequence itself.
struct Drafts {
  DraftTree tree;
  std::vector<KvSequence> branches;  // [tree.n_branches() - 1] forks of the sequence for the other branches

  // While the step's logits are read: the last node that was accepted, and the token that was chosen behind it (-1:
  // none so far). It ends the walk, for a token that had been drafted would have been accepted.
  int32_t accepted = -1;
  int32_t next = -1;

  bool empty() const { return tree.empty(); }
  // The sequence got this token.
  void follow(int32_t token);
};

// Gives the tree pages; branches for which there are none are cut off. `kv` holds all tokens of the sequence but the
// last one. page_copied(src, dst) tells of pages that were copied.
void attach_drafts(Drafts& drafts, DraftTree tree, KvSequence& kv, KvManager& manager,
                   const std::function<void(int32_t src, int32_t dst)>& page_copied);
// Appends the rows of all drafts, in the order of the nodes, and ends the batch's last sequence, whose last row they
// continue. The logits of all these rows are wanted.
// REQUIRES: drafts not empty; `kv` has pages to the end of branch 0.
void append_drafts(Batch& batch, const Drafts& drafts, const KvSequence& kv, int page_size);
// The step is over: `kv`, which holds the tokens up to the one before the drafts, goes on behind the accepted ones,
// on the pages of their branch. All other pages are given back.
void settle_drafts(Drafts& drafts, KvSequence& kv, KvManager& manager);
// The drafts take part in no step.
void drop_drafts(Drafts& drafts, KvManager& manager);

}  // namespace loci
