#include "engine/spec/draft_rows.h"

#include "kernels/check.h"

namespace loci {

void append_guesses(Batch& batch, const DraftTree& tree, int64_t position, const KvSequence& kv,
                    std::span<const KvSequence> branches, int page_size) {
  const std::vector<int32_t> owners = tree.owners();
  LOCI_CHECK(!tree.empty() && branches.size() == static_cast<size_t>(owners.back()), "branches without pages");
  const auto root_row = static_cast<int32_t>(batch.n_rows()) - 1;
  const auto pages_of = [&](int32_t branch) -> const std::vector<int32_t>& {
    return branch == 0 ? kv.pages : branches[static_cast<size_t>(branch) - 1].pages;
  };
  const auto slot = [&](int32_t branch, int64_t at) {
    return int64_t{pages_of(branch)[static_cast<size_t>(at / page_size)]} * page_size + at % page_size;
  };
  const auto end_sequence = [&](int32_t branch) {
    const auto first = pages_of(branch).begin();
    const int64_t n_pages = batch.positions.back() / page_size + 1;
    batch.page_indices.insert(batch.page_indices.end(), first, first + n_pages);
    batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
    batch.q_indptr.push_back(static_cast<int32_t>(batch.n_rows()));
  };
  batch.logit_rows.push_back(root_row);
  for (int32_t node = 0; node < tree.size(); ++node) {
    const int32_t branch = owners[static_cast<size_t>(node)];
    if (node > 0 && branch != owners[static_cast<size_t>(node) - 1]) {
      end_sequence(branch - 1);
      // What the branch has in common with earlier ones.
      batch.copy_rows.push_back(root_row);
      batch.copy_slots.push_back(slot(branch, position));
      for (int32_t above = tree.parents[static_cast<size_t>(node)]; above >= 0;
           above = tree.parents[static_cast<size_t>(above)]) {
        batch.copy_rows.push_back(root_row + 1 + above);
        batch.copy_slots.push_back(slot(branch, position + tree.depth(above)));
      }
    }
    const int64_t at = position + tree.depth(node);
    batch.tokens.push_back(tree.tokens[static_cast<size_t>(node)]);
    batch.positions.push_back(static_cast<int32_t>(at));
    batch.slots.push_back(slot(branch, at));
    batch.logit_rows.push_back(root_row + 1 + node);
  }
  end_sequence(owners.back());
}

}  // namespace loci
