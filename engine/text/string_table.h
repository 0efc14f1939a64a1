// StringTable: strings numbered from 0, all bytes in one arena, found by open addressing. Built once, then read-only.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loci {

class StringTable {
 public:
  // Room for `count` strings of `bytes` bytes in all; exceeding it is allowed and slower.
  void reserve(size_t count, size_t bytes);
  // Appends a string under the next number. Of equal strings find() returns the first.
  int32_t add(std::string_view text);
  // -1 when absent.
  int32_t find(std::string_view text) const;
  std::string_view operator[](int32_t id) const {
    const size_t i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  // An equal string was added before this one.
  bool is_repeat(int32_t id) const {
    return !repeats_.empty() && std::binary_search(repeats_.begin(), repeats_.end(), id);
  }
  int32_t size() const { return static_cast<int32_t>(offsets_.size() - 1); }

 private:
  // A slot holds id + 1 (0: empty) and the upper half of the hash, so that most mismatches cost no string access.
  struct Slot {
    uint32_t id_plus_1 = 0;
    uint32_t tag = 0;
  };
  void rehash(size_t slots);
  std::string arena_;
  std::vector<size_t> offsets_ = {0};
  std::vector<int32_t> repeats_;  // ascending
  std::vector<Slot> slots_;       // power of two, at most half full
};

}  // namespace loci
