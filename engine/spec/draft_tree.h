// DraftTree: possible continuations of a sequence, checked by one forward pass. A chain is a tree with one branch.
#pragma once
#include <cstdint>
#include <vector>

namespace loci {

// Node i continues node parents[i]; -1 is the sequence's last token, whose logits judge the first drafts.
// Invariants: parents[i] < i; nodes stand in depth-first order (a node is followed by its first child, if any), so
// that every branch is a run of nodes behind the part it shares with an earlier branch; siblings differ.
struct DraftTree {
  std::vector<int32_t> tokens;
  std::vector<int32_t> parents;
  std::vector<float> confidence;  // the drafter's probability that the node is right, given that its parent is

  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  bool empty() const { return tokens.empty(); }
  void clear();
  // REQUIRES: parent < size(). Depth-first order is the caller's duty.
  void add(int32_t token, int32_t parent, float probability);
  // Node that continues `parent` with `token`, or -1.
  int32_t child(int32_t parent, int32_t token) const;
  // 1 for a draft right behind the sequence, -1 gives 0.
  int32_t depth(int32_t node) const;
  int32_t max_depth() const;
  // Drops the nodes from `size` on.
  void truncate(int32_t size);
  // Drops all but these nodes, which are ascending and hold the parent of each.
  void keep(const std::vector<int32_t>& nodes);
  // Per node: the branch whose pages it is computed on. Branch 0 starts with node 0; a node opens a new branch when
  // it does not continue the node before it.
  std::vector<int32_t> owners() const;
  int32_t n_branches() const;
  // Nodes of a branch from the root to its last node, those shared with earlier branches included.
  std::vector<int32_t> branch(int32_t index) const;
  void check_invariants() const;
};

}  // namespace loci
