#include "engine/text/merge_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace loci {
namespace {

using Symbol = MergeTable::Symbol;

// Textbook byte-pair encoding: look at every pair, merge the best, start again.
std::vector<Symbol> merge_plainly(const MergeTable& table, std::vector<Symbol> symbols) {
  for (;;) {
    uint32_t best = MergeTable::kNoRank;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t rank = table.find(symbols[i].id, symbols[i + 1].id).rank;
      if (rank < best) best = rank, at = i;
    }
    if (best == MergeTable::kNoRank) return symbols;
    symbols[at].id = table.find(symbols[at].id, symbols[at + 1].id).result;
    symbols[at].length += symbols[at + 1].length;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::vector<Symbol> symbols_of(const std::vector<int32_t>& ids) {
  std::vector<Symbol> symbols;
  for (const int32_t id : ids) symbols.push_back({id, static_cast<uint32_t>(symbols.size()), 1});
  return symbols;
}

void expect_equal(const std::vector<Symbol>& a, const std::vector<Symbol>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id);
    EXPECT_EQ(a[i].begin, b[i].begin);
    EXPECT_EQ(a[i].length, b[i].length);
  }
}

TEST(MergeTable, MergesAsTheTextbookDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    MergeTable table;
    const int32_t n_symbols = 2 + static_cast<int32_t>(random() % 4);
    int32_t next = n_symbols;
    for (uint32_t rank = 0; rank < 12; ++rank) {
      const int32_t left = static_cast<int32_t>(random() % static_cast<uint32_t>(next));
      const int32_t right = static_cast<int32_t>(random() % static_cast<uint32_t>(next));
      if (table.find(left, right).rank == MergeTable::kNoRank) table.add(left, right, rank, next++);
    }
    for (const size_t length : {0u, 1u, 2u, 3u, 17u, 47u, 48u, 49u, 50u, 200u}) {
      std::vector<int32_t> ids;
      for (size_t i = 0; i < length; ++i) {
        ids.push_back(random() % 20 == 0 ? -1 : static_cast<int32_t>(random() % static_cast<uint32_t>(n_symbols)));
      }
      std::vector<Symbol> symbols = symbols_of(ids);
      table.apply(symbols);
      expect_equal(symbols, merge_plainly(table, symbols_of(ids)));
    }
  }
}

TEST(MergeTable, FirstEntryOfAPairCounts) {
  MergeTable table;
  EXPECT_EQ(table.find(1, 2).rank, MergeTable::kNoRank);
  table.add(1, 2, 5, 9);
  table.add(1, 2, 6, 10);
  EXPECT_EQ(table.find(1, 2).rank, 5u);
  EXPECT_EQ(table.find(1, 2).result, 9);
  EXPECT_EQ(table.find(2, 1).rank, MergeTable::kNoRank);
}

TEST(MergeTable, LongWordTakesNoQuadraticTime) {
  MergeTable table;
  for (int32_t i = 0; i < 10; ++i) table.add(i, i, static_cast<uint32_t>(i), i + 1);
  std::vector<Symbol> symbols = symbols_of(std::vector<int32_t>(200000, 0));
  const auto start = std::chrono::steady_clock::now();
  table.apply(symbols);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5);
  EXPECT_EQ(symbols.size(), 200000u / 1024 + 2);  // 195 whole ones; the rest of 320 is 256 + 64
}

}  // namespace
}  // namespace loci
