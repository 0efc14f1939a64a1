#include "engine/text/special_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace loci {
namespace {

using Match = SpecialMatcher::Match;

// Longest text first over the whole text, left to right, never over what is taken.
std::vector<Match> match_plainly(std::vector<std::string> texts, const std::string& text) {
  std::vector<int32_t> order(texts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return texts[static_cast<size_t>(a)].size() > texts[static_cast<size_t>(b)].size();
  });
  std::string left = text;  // taken bytes become '#', which no token holds
  std::vector<Match> found;
  for (const int32_t id : order) {
    const std::string& token = texts[static_cast<size_t>(id)];
    for (size_t pos = left.find(token); pos != std::string::npos; pos = left.find(token, pos)) {
      found.push_back({pos, token.size(), id});
      left.replace(pos, token.size(), token.size(), '#');
    }
  }
  std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) { return a.pos < b.pos; });
  return found;
}

TEST(SpecialMatcher, LongestTokenFirst) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> texts;
    SpecialMatcher matcher;
    for (size_t length = 1; length <= 7; ++length) {  // one per length: equal lengths have no order of their own
      if (random() % 3 == 0) continue;
      std::string token;
      for (size_t i = 0; i < length; ++i) token += static_cast<char>('a' + random() % 2);
      matcher.add(token, static_cast<int32_t>(texts.size()));
      texts.push_back(token);
    }
    matcher.build();
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    const std::vector<Match> expected = match_plainly(texts, text);
    const std::vector<Match> found = matcher.find(text);
    ASSERT_EQ(found.size(), expected.size()) << text;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].pos, expected[i].pos) << text;
      EXPECT_EQ(found[i].id, expected[i].id) << text;
    }
  }
}

TEST(SpecialMatcher, RunsOfRunTokens) {
  SpecialMatcher matcher;
  for (int32_t length = 1; length <= 31; ++length) matcher.add(std::string(static_cast<size_t>(length), ' '), length);
  matcher.build();
  for (size_t n = 0; n <= 100; ++n) {
    std::vector<size_t> lengths;
    for (const Match& match : matcher.find("x" + std::string(n, ' ') + "y")) lengths.push_back(match.length);
    std::vector<size_t> expected(n / 31, 31);
    if (n % 31 != 0) expected.push_back(n % 31);
    EXPECT_EQ(lengths, expected) << n;
  }
}

TEST(SpecialMatcher, NothingToFind) {
  SpecialMatcher matcher;
  EXPECT_TRUE(matcher.empty());
  EXPECT_TRUE(matcher.find("abc").empty());
  matcher.add("", 3);
  matcher.build();
  EXPECT_TRUE(matcher.find("abc").empty());
  matcher.add(std::string("\0x", 2), 4);
  matcher.build();
  EXPECT_EQ(matcher.find(std::string("a\0xb", 4)).size(), 1u);
  EXPECT_TRUE(matcher.find("").empty());
}

}  // namespace
}  // namespace loci
