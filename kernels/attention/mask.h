// Which keys a query row sees, and how the keys are cut into splits. Shared by all devices: every rule here depends
// on absolute positions alone, which is what makes a row's result independent of batch, chunking and threads.
#pragma once
#include <cstdint>

#include "kernels/hd.h"

namespace loci {

// Keys are reduced in splits of this many tokens, counted from position 0 of the sequence (docs/attention.md).
inline constexpr int kSplitTokens = 256;

// Keys [begin, end).
struct KeyRange {
  int32_t begin = 0;
  int32_t end = 0;
  LOCI_HD bool empty() const { return begin >= end; }
  LOCI_HD int32_t size() const { return end - begin; }
};

// Keys that a row at `position` sees: all up to itself, or the last `window` of them when window > 0.
LOCI_HD KeyRange visible_keys(int32_t position, int32_t window) {
  const int32_t end = position + 1;
  return {window > 0 && end > window ? end - window : 0, end};
}

// The part of `keys` that lies in split `split`, counted from the start of the split; empty ranges are {0, 0}.
LOCI_HD KeyRange keys_in_split(KeyRange keys, int32_t split) {
  const int32_t start = split * kSplitTokens;
  const int32_t begin = keys.begin > start ? keys.begin - start : 0;
  const int32_t end = keys.end - start < kSplitTokens ? keys.end - start : kSplitTokens;
  if (begin >= end) return {0, 0};
  return {begin, end};
}

}  // namespace loci
