// Tables behind unicode.cc, written by scripts/make_unicode_tables.py. All are sorted by code point.
#pragma once
#include <cstddef>
#include <cstdint>

namespace loci::unicode {

struct CategoryRun {
  uint32_t first;    // the run goes up to the next entry's `first`
  uint8_t category;  // Category
};
struct LowerPair {
  uint32_t from, to;
};
struct StrippedEntry {
  uint32_t from;
  uint32_t to[3];  // 0 = nothing more
};

extern const CategoryRun kCategoryRuns[];
extern const size_t kCategoryRunsSize;
extern const LowerPair kLower[];
extern const size_t kLowerSize;
extern const StrippedEntry kStripped[];
extern const size_t kStrippedSize;

}  // namespace loci::unicode
