// MergeTable: which pairs of adjacent symbols merge, in what order, into what. And the merging itself, as byte-pair
// encoding defines it (Sennrich et al. 2016, arXiv:1508.07909): always the pair of lowest rank, leftmost first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace loci {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank;  // kNoRank: the pair does not merge
    int32_t result;
  };
  static constexpr uint32_t kNoRank = 0xFFFFFFFF;

  void reserve(size_t count);
  // Of two entries for one pair the first counts.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t result);
  Merge find(int32_t left, int32_t right) const;

  // One symbol of a word under merging: its id (negative: merges with nothing) and the bytes it covers.
  struct Symbol {
    int32_t id;
    uint32_t begin, length;
  };
  // Merges `symbols` to the end, in place. O(n log n) in the number of symbols.
  void apply(std::vector<Symbol>& symbols) const;

 private:
  void apply_short(std::vector<Symbol>& symbols) const;
  void apply_long(std::vector<Symbol>& symbols) const;

  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge = {kNoRank, -1};
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t home(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  void rehash(size_t slots);

  std::vector<Slot> slots_;  // power of two, at most half full
  size_t count_ = 0;
  int shift_ = 64;  // 64 - log2(slots)
};

}  // namespace loci
