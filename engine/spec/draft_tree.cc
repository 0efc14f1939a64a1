#include "engine/spec/draft_tree.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace loci {

void DraftTree::clear() { truncate(0); }

void DraftTree::add(int32_t token, int32_t parent, float probability) {
  LOCI_CHECK(parent >= -1 && parent < size(), "parent ", parent, " of ", size(), " draft nodes");
  tokens.push_back(token);
  parents.push_back(parent);
  confidence.push_back(probability);
}

int32_t DraftTree::child(int32_t parent, int32_t token) const {
  for (int32_t node = parent + 1; node < size(); ++node) {
    if (parents[static_cast<size_t>(node)] == parent && tokens[static_cast<size_t>(node)] == token) return node;
  }
  return -1;
}

int32_t DraftTree::depth(int32_t node) const {
  int32_t depth = 0;
  for (; node >= 0; node = parents[static_cast<size_t>(node)]) ++depth;
  return depth;
}

int32_t DraftTree::max_depth() const {
  int32_t deepest = 0;
  for (int32_t node = 0; node < size(); ++node) deepest = std::max(deepest, depth(node));
  return deepest;
}

void DraftTree::truncate(int32_t size) {
  const auto n = static_cast<size_t>(size);
  tokens.resize(n);
  parents.resize(n);
  confidence.resize(n);
}

void DraftTree::keep(const std::vector<int32_t>& nodes) {
  DraftTree kept;
  for (const int32_t node : nodes) {
    const auto n = static_cast<size_t>(node);
    int32_t parent = -1;
    if (parents[n] >= 0) {
      const auto at = std::lower_bound(nodes.begin(), nodes.end(), parents[n]);
      LOCI_CHECK(at != nodes.end() && *at == parents[n], "draft node ", node, " without its parent");
      parent = static_cast<int32_t>(at - nodes.begin());
    }
    kept.add(tokens[n], parent, confidence[n]);
  }
  *this = std::move(kept);
}

std::vector<int32_t> DraftTree::owners() const {
  std::vector<int32_t> owners;
  int32_t branch = 0;
  for (int32_t node = 0; node < size(); ++node) {
    if (node > 0 && parents[static_cast<size_t>(node)] != node - 1) ++branch;
    owners.push_back(branch);
  }
  return owners;
}

int32_t DraftTree::n_branches() const { return empty() ? 0 : owners().back() + 1; }

std::vector<int32_t> DraftTree::branch(int32_t index) const {
  const std::vector<int32_t> owner = owners();
  int32_t last = size() - 1;
  while (last >= 0 && owner[static_cast<size_t>(last)] != index) --last;
  std::vector<int32_t> nodes;
  for (int32_t node = last; node >= 0; node = parents[static_cast<size_t>(node)]) nodes.push_back(node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

void DraftTree::check_invariants() const {
  LOCI_CHECK(parents.size() == tokens.size() && confidence.size() == tokens.size(), "draft tree of unequal arrays");
  std::vector<int32_t> path{-1};  // from the root to the node before
  for (int32_t node = 0; node < size(); ++node) {
    const int32_t parent = parents[static_cast<size_t>(node)];
    const auto on_path = std::find(path.begin(), path.end(), parent);
    LOCI_CHECK(on_path != path.end(), "draft node ", node, " is not in depth-first order");
    path.erase(on_path + 1, path.end());
    path.push_back(node);
    LOCI_CHECK(child(parent, tokens[static_cast<size_t>(node)]) == node, "draft node ", node, " repeats a sibling");
  }
}

}  // namespace loci
