#include "engine/text/special_matcher.h"

#include <algorithm>
#include <functional>
#include <map>

namespace loci {

uint32_t SpecialMatcher::child(uint32_t node, char byte) const {
  if (node == 0) return root_[static_cast<uint8_t>(byte)];
  uint32_t next = nodes_[node].first_child;
  while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].next_sibling;
  return next;
}

void SpecialMatcher::add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    const char byte = text[i];
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      Node added;
      added.byte = byte;
      added.length = nodes_[node].length + 1;
      if (node == 0) {
        root_[static_cast<uint8_t>(byte)] = next;
      } else {
        added.next_sibling = nodes_[node].first_child;
        nodes_[node].first_child = next;
      }
      nodes_.push_back(added);
    }
    node = next;
  }
  if (nodes_[node].id < 0) nodes_[node].id = id;
}

void SpecialMatcher::build() {
  std::vector<uint32_t> queue;  // by depth, so that a node's links lead to finished nodes
  for (const uint32_t node : root_) {
    if (node != 0) queue.push_back(node);
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    const uint32_t parent = queue[i];
    for (uint32_t node = nodes_[parent].first_child; node != 0; node = nodes_[node].next_sibling) {
      uint32_t fail = nodes_[parent].fail;
      uint32_t target = child(fail, nodes_[node].byte);
      while (target == 0 && fail != 0) {
        fail = nodes_[fail].fail;
        target = child(fail, nodes_[node].byte);
      }
      nodes_[node].fail = target;
      nodes_[node].shorter = nodes_[target].id >= 0 ? target : nodes_[target].shorter;
      queue.push_back(node);
    }
  }
}

std::vector<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text) const {
  if (empty()) return {};
  struct Candidate {
    size_t pos;
    uint32_t node;
  };
  std::vector<Candidate> candidates;  // the longest token at each place, last place first
  bool overlap = false;
  uint32_t state = 0;
  for (size_t pos = text.size(); pos-- > 0;) {
    uint32_t next = child(state, text[pos]);
    while (next == 0 && state != 0) {
      state = nodes_[state].fail;
      next = child(state, text[pos]);
    }
    state = next;
    const uint32_t node = nodes_[state].id >= 0 ? state : nodes_[state].shorter;
    if (node == 0) continue;
    overlap = overlap || (!candidates.empty() && pos + nodes_[node].length > candidates.back().pos);
    candidates.push_back({pos, node});
  }
  std::vector<Match> found;
  const auto take = [&](const Candidate& c) { found.push_back({c.pos, nodes_[c.node].length, nodes_[c.node].id}); };
  if (!overlap) {
    for (size_t i = candidates.size(); i-- > 0;) take(candidates[i]);
    return found;
  }

  // By decreasing length. A candidate whose start is taken is dead; one whose end is taken comes back as the next
  // shorter token at its place. Everything taken so far is at least as long as the candidate, so that an overlap
  // always covers the candidate's first or last byte.
  std::map<size_t, std::vector<Candidate>, std::greater<>> by_length;
  for (const Candidate& c : candidates) by_length[nodes_[c.node].length].push_back(c);
  std::vector<bool> taken(text.size());
  while (!by_length.empty()) {
    const size_t length = by_length.begin()->first;
    std::vector<Candidate> equal = std::move(by_length.begin()->second);
    by_length.erase(by_length.begin());
    std::sort(equal.begin(), equal.end(), [](const Candidate& a, const Candidate& b) { return a.pos < b.pos; });
    for (const Candidate& c : equal) {
      if (taken[c.pos]) continue;
      if (taken[c.pos + length - 1]) {
        const uint32_t shorter = nodes_[c.node].shorter;
        if (shorter != 0) by_length[nodes_[shorter].length].push_back({c.pos, shorter});
        continue;
      }
      const auto begin = taken.begin() + static_cast<std::ptrdiff_t>(c.pos);
      std::fill(begin, begin + static_cast<std::ptrdiff_t>(length), true);
      take(c);
    }
  }
  std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) { return a.pos < b.pos; });
  return found;
}

}  // namespace loci
