#include "engine/text/special_matcher.h"

#include <algorithm>
#include <functional>
#include <limits>
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
  for (const char byte : text) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      Node added;
      added.byte = byte;
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

SpecialMatcher::Match SpecialMatcher::longest(std::string_view text, size_t pos, size_t below) const {
  Match best{pos, 0, -1};
  uint32_t node = 0;
  for (size_t i = pos; i < text.size() && i - pos + 1 < below; ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    if (nodes_[node].id >= 0) best = {pos, i - pos + 1, nodes_[node].id};
  }
  return best;
}

std::vector<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text) const {
  std::vector<Match> found;
  if (empty()) return found;
  bool overlap = false;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    if (root_[static_cast<uint8_t>(text[pos])] == 0) continue;
    const Match match = longest(text, pos, std::numeric_limits<size_t>::max());
    if (match.length == 0) continue;
    overlap = overlap || (!found.empty() && found.back().pos + found.back().length > pos);
    found.push_back(match);
  }
  if (!overlap) return found;

  // By decreasing length. A candidate whose start is taken is dead; one whose end is taken comes back as the next
  // shorter token at its place. Everything taken so far is at least as long as the candidate, so that an overlap
  // always covers the candidate's first or last byte.
  std::map<size_t, std::vector<Match>, std::greater<>> by_length;
  for (const Match& match : found) by_length[match.length].push_back(match);
  std::vector<bool> taken(text.size());
  found.clear();
  while (!by_length.empty()) {
    std::vector<Match> matches = std::move(by_length.begin()->second);
    by_length.erase(by_length.begin());
    std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.pos < b.pos; });
    for (const Match& match : matches) {
      if (taken[match.pos]) continue;
      if (taken[match.pos + match.length - 1]) {
        const Match shorter = longest(text, match.pos, match.length);
        if (shorter.length > 0) by_length[shorter.length].push_back(shorter);
        continue;
      }
      std::fill(taken.begin() + static_cast<std::ptrdiff_t>(match.pos),
                taken.begin() + static_cast<std::ptrdiff_t>(match.pos + match.length), true);
      found.push_back(match);
    }
  }
  std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) { return a.pos < b.pos; });
  return found;
}

}  // namespace loci
