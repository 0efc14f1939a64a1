// How a tree of guesses becomes rows of a batch. Each branch is a sequence of its own there, on its own page list, so
// that a row sees its ancestors and nothing else, at their positions: its arithmetic is that of plain decoding to the
// bit, without a mask. A row that several branches contain is computed once, on the first of them, and its K/V are
// written to all.
#pragma once
#include <cstdint>
#include <span>

#include "engine/batch.h"
#include "engine/kv/kv_manager.h"
#include "engine/spec/draft_tree.h"

namespace loci {

// Appends the rows of all guesses, in the order of the nodes, and ends the sequence whose last row (so far the batch's
// last one, of the sequence's last token at `position`) they continue. All these rows' logits are wanted.
//   kv        pages of the sequence: branch 0 goes on there
//   branches  [tree.n_branches() - 1] forks of it, with pages of their own from `position` on
// REQUIRES: tree not empty; every page list reaches to the end of its branch.
void append_guesses(Batch& batch, const DraftTree& tree, int64_t position, const KvSequence& kv,
                    std::span<const KvSequence> branches, int page_size);

}  // namespace loci
