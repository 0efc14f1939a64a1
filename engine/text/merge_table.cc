#include "engine/text/merge_table.h"

#include <queue>

namespace loci {
namespace {

// Up to this many symbols a scan for the lowest rank beats the heap.
constexpr size_t kShortWord = 48;

}  // namespace

void MergeTable::reserve(size_t count) {
  size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

void MergeTable::rehash(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  shift_ = 64 - __builtin_ctzll(slots);
  for (const Slot& slot : old) {
    if (slot.pair == kEmpty) continue;
    size_t i = home(slot.pair);
    while (slots_[i].pair != kEmpty) i = (i + 1) & (slots - 1);
    slots_[i] = slot;
  }
}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t result) {
  if (2 * (count_ + 1) > slots_.size()) rehash(slots_.empty() ? 16 : 2 * slots_.size());
  const uint64_t pair = key(left, right);
  size_t i = home(pair);
  for (; slots_[i].pair != kEmpty; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].pair == pair) return;
  }
  slots_[i] = {pair, {rank, result}};
  ++count_;
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0 || slots_.empty()) return {kNoRank, -1};
  const uint64_t pair = key(left, right);
  for (size_t i = home(pair); slots_[i].pair != kEmpty; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].pair == pair) return slots_[i].merge;
  }
  return {kNoRank, -1};
}

void MergeTable::apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShortWord) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

void MergeTable::apply_short(std::vector<Symbol>& symbols) const {
  Merge merges[kShortWord];  // [i]: symbols i and i + 1
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find(symbols[i].id, symbols[i + 1].id);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    symbols[best].id = merges[best].result;
    symbols[best].length += symbols[best + 1].length;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      if (i + 2 < n) merges[i] = merges[i + 1];
    }
    --n;
    if (best + 1 < n) merges[best] = find(symbols[best].id, symbols[best + 1].id);
    if (best > 0) merges[best - 1] = find(symbols[best - 1].id, symbols[best].id);
  }
  symbols.resize(n);
}

void MergeTable::apply_long(std::vector<Symbol>& symbols) const {
  constexpr uint32_t kNone = 0xFFFFFFFF;
  struct Candidate {
    uint32_t rank, left, right;
    int32_t left_id, right_id;  // to notice that a side has changed since
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  const uint32_t n = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(n), previous(n);
  std::vector<bool> dead(n);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto push = [&](uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return;
    const Merge merge = find(symbols[left].id, symbols[right].id);
    if (merge.rank != kNoRank) queue.push({merge.rank, left, right, symbols[left].id, symbols[right].id});
  };
  for (uint32_t i = 0; i < n; ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == n ? kNone : i + 1;
    if (i > 0) push(i - 1, i);
  }
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    if (dead[c.left] || dead[c.right] || next[c.left] != c.right) continue;
    if (symbols[c.left].id != c.left_id || symbols[c.right].id != c.right_id) continue;
    symbols[c.left].id = find(c.left_id, c.right_id).result;
    symbols[c.left].length += symbols[c.right].length;
    dead[c.right] = true;
    next[c.left] = next[c.right];
    if (next[c.left] != kNone) previous[next[c.left]] = c.left;
    push(previous[c.left], c.left);
    push(c.left, next[c.left]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kNone; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace loci
