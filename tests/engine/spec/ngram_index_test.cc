#include "engine/spec/ngram_index.h"

#include <gtest/gtest.h>

#include <random>

namespace loci {
namespace {

NgramIndex index_of(const std::vector<int32_t>& tokens, size_t capacity = 0) {
  NgramIndex index(capacity);
  for (const int32_t token : tokens) token < 0 ? index.append_border() : index.append(token);
  return index;
}

std::vector<int32_t> next_tokens(const NgramIndex& index, const std::vector<int32_t>& context, int n) {
  std::vector<int32_t> tokens;
  for (const NgramIndex::Match& match : index.find(context, n)) tokens.push_back(index.tokens()[match.next]);
  return tokens;
}

TEST(NgramIndex, FindsTheLongestMatchThenTheLatest) {
  const std::vector<int32_t> tokens{1, 2, 3, 50, 9, 2, 3, 60, 1, 2, 3, 70, 8, 2, 3, 80, 1, 2, 3};
  const NgramIndex index = index_of(tokens);
  EXPECT_EQ(next_tokens(index, tokens, 1), (std::vector<int32_t>{70}));
  EXPECT_EQ(next_tokens(index, tokens, 9), (std::vector<int32_t>{70, 50, 80, 60}));
  EXPECT_EQ(index.find(tokens, 1).front().length, 3);
}

TEST(NgramIndex, TheEndOfTheContextIsNotItsOwnContinuation) {
  EXPECT_TRUE(index_of({}).find({}, 1).empty());
  EXPECT_TRUE(index_of({5}).find(std::vector<int32_t>{5}, 1).empty());
  EXPECT_TRUE(index_of({1, 2, 3}).find(std::vector<int32_t>{1, 2, 3}, 1).empty());
  EXPECT_EQ(next_tokens(index_of({5, 5}), {5, 5}, 1), (std::vector<int32_t>{5}));
}

TEST(NgramIndex, OneTokenServesWhenTwoDoNot) {
  const std::vector<int32_t> tokens{4, 7, 1, 2, 7};
  EXPECT_EQ(next_tokens(index_of(tokens), tokens, 3), (std::vector<int32_t>{1}));
}

TEST(NgramIndex, NothingSpansABorder) {
  const NgramIndex index = index_of({1, 2, -1, 3, 4, 5, -1});
  EXPECT_TRUE(index.find(std::vector<int32_t>{1, 2}, 1).empty());
  ASSERT_EQ(next_tokens(index, {3, 4}, 1), (std::vector<int32_t>{5}));
  EXPECT_EQ(index.continuation(index.find(std::vector<int32_t>{3, 4}, 1).front(), 8).size(), 1u);
  EXPECT_EQ(next_tokens(index, {2, 3}, 1), (std::vector<int32_t>{4}));
  EXPECT_EQ(index.find(std::vector<int32_t>{2, 3}, 1).front().length, 1);
}

TEST(NgramIndex, ForgetsTheOlderHalf) {
  NgramIndex index(100);
  for (int32_t i = 0; i < 1000; ++i) {
    index.append(i);
    EXPECT_LE(index.tokens().size(), 200u);
  }
  EXPECT_TRUE(index.find(std::vector<int32_t>{10, 11}, 1).empty());
  EXPECT_EQ(next_tokens(index, {990, 991}, 1), (std::vector<int32_t>{992}));
}

// Against a search through all places.
TEST(NgramIndex, AgreesWithPlainSearch) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> tokens;
    NgramIndex index;
    for (int i = 0; i < 60; ++i) {
      tokens.push_back(static_cast<int32_t>(random() % 4));
      index.append(tokens.back());
      size_t best_place = 0;
      int best_length = 0;
      for (size_t next = 1; next < tokens.size(); ++next) {
        int length = 0;
        while (length < NgramIndex::kMaxLength && next >= static_cast<size_t>(length) + 1 &&
               tokens[next - 1 - static_cast<size_t>(length)] ==
                   tokens[tokens.size() - 1 - static_cast<size_t>(length)]) {
          ++length;
        }
        if (length > 0 && length >= best_length) best_place = next, best_length = length;
      }
      const auto found = index.find(tokens, 1);
      ASSERT_EQ(found.empty(), best_length == 0);
      if (found.empty()) continue;
      ASSERT_EQ(found.front().next, best_place);
      ASSERT_EQ(found.front().length, best_length);
    }
  }
}

}  // namespace
}  // namespace loci
