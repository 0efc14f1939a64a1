#include "engine/spec/drafts.h"

#include <utility>

#include "kernels/check.h"

namespace loci {

void Drafts::follow(int32_t token) {
  if (next >= 0) return;
  const int32_t child = tree.child(accepted, token);
  if (child >= 0) {
    accepted = child;
  } else {
    next = token;
  }
}

void attach_drafts(Drafts& drafts, DraftTree tree, KvSequence& kv, KvManager& manager,
                   const std::function<void(int32_t src, int32_t dst)>& page_copied) {
  LOCI_CHECK(drafts.empty() && drafts.branches.empty(), "drafts that were not settled");
  drafts.tree = std::move(tree);
  const auto n_tokens = static_cast<int64_t>(kv.tokens.size()) + 1;
  const std::vector<int32_t> owners = drafts.tree.owners();
  for (int32_t branch = 1; branch < drafts.tree.n_branches(); ++branch) {
    KvSequence fork = manager.fork(kv);
    if (!manager.reserve(fork, n_tokens + static_cast<int64_t>(drafts.tree.branch(branch).size()))) {
      manager.release(std::move(fork));
      int32_t n_kept = 0;
      while (owners[static_cast<size_t>(n_kept)] < branch) ++n_kept;
      drafts.tree.truncate(n_kept);
      break;
    }
    // The half-filled page is not shared but copied.
    const auto page_size = static_cast<size_t>(manager.page_size());
    const size_t last = kv.tokens.size() / page_size;
    if (kv.tokens.size() % page_size != 0) page_copied(kv.pages[last], fork.pages[last]);
    drafts.branches.push_back(std::move(fork));
  }
}

void append_drafts(Batch& batch, const Drafts& drafts, const KvSequence& kv, int page_size) {
  const DraftTree& tree = drafts.tree;
  const std::vector<int32_t> owners = tree.owners();
  LOCI_CHECK(!tree.empty() && drafts.branches.size() == static_cast<size_t>(owners.back()), "branches without pages");
  const auto root_row = static_cast<int32_t>(batch.n_rows()) - 1;
  const int64_t position = batch.positions.back();
  const auto pages_of = [&](int32_t branch) -> const std::vector<int32_t>& {
    return branch == 0 ? kv.pages : drafts.branches[static_cast<size_t>(branch) - 1].pages;
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

void settle_drafts(Drafts& drafts, KvSequence& kv, KvManager& manager) {
  std::vector<int32_t> tokens = std::move(kv.tokens);
  if (drafts.accepted >= 0) {
    const int32_t branch = drafts.tree.owners()[static_cast<size_t>(drafts.accepted)];
    if (branch > 0) std::swap(kv, drafts.branches[static_cast<size_t>(branch) - 1]);
    const size_t n = tokens.size();
    for (int32_t node = drafts.accepted; node >= 0; node = drafts.tree.parents[static_cast<size_t>(node)]) {
      tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(n), drafts.tree.tokens[static_cast<size_t>(node)]);
    }
  }
  kv.tokens = std::move(tokens);
  drop_drafts(drafts, manager);
  manager.truncate(kv, static_cast<int64_t>(kv.tokens.size()));
}

void drop_drafts(Drafts& drafts, KvManager& manager) {
  for (KvSequence& branch : drafts.branches) manager.release(std::move(branch));
  drafts.branches.clear();
  drafts.tree.clear();
  drafts.accepted = drafts.next = -1;
}

}  // namespace loci
