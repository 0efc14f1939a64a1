#include "engine/constraint/grammar.h"

#include <gtest/gtest.h>

#include "tests/constraint/acceptor.h"

namespace loci {
namespace {

bool same(const CharSet& a, const CharSet& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const CharRange& x, const CharRange& y) {
           return x.low == y.low && x.high == y.high;
         });
}

TEST(CharSets, AreSortedAndHoldWhatTextHolds) {
  EXPECT_TRUE(same(normalized({{'c', 'd'}, {'a', 'c'}, {'e', 'e'}}), {{'a', 'e'}}));
  EXPECT_TRUE(same(normalized({{0, 5}, {0xD000, 0xE000}}), {{1, 5}, {0xD000, 0xD7FF}, {0xE000, 0xE000}}));
  EXPECT_TRUE(same(complement({{'b', kMaxCodePoint}}), {{1, 'a'}}));
  EXPECT_TRUE(same(complement(complement({{'a', 'z'}})), {{'a', 'z'}}));
  EXPECT_TRUE(complement({{0, kMaxCodePoint}}).empty());
  EXPECT_TRUE(same(intersection({{'a', 'm'}}, {{'k', 'z'}}), {{'k', 'm'}}));
  EXPECT_TRUE(intersection({{'a', 'b'}}, {{'c', 'd'}}).empty());
}

TEST(GrammarChecks, UndefinedRulesAndSizesAreRefused) {
  Grammar grammar;
  const Grammar::Rule root = grammar.add_rule("start");
  const Grammar::Rule other = grammar.add_rule("other");
  grammar.define(root, grammar.reference(other));
  EXPECT_EQ(test::outcome_of([&] { grammar.check(); }), "rule 'other' is used and not defined");
  EXPECT_NE(test::outcome_of([&] { grammar.repeat(grammar.text("a"), 0, Grammar::kMaxRepeat + 1); }), "no error");
  EXPECT_NE(test::outcome_of([&] { grammar.text("\xFF"); }), "no error");
  grammar.define(other, grammar.repeat(grammar.text(std::string(1000, 'a')), 0, 1000));
  EXPECT_NE(test::outcome_of([&] { grammar.check(); }).find("too large"), std::string::npos);
}

TEST(GrammarText, EveryCharacterSurvivesTheCompilersNotation) {
  LOCI_NEEDS_XGRAMMAR();
  const std::string text = "\"\\[]^-{}()|*+?.:=#\n\r\t\x01\x7F'`~é€🦙";
  Grammar literal;
  literal.add_rule("r", literal.text(text));
  EXPECT_TRUE(test::Acceptor(literal).takes(text));
  Grammar classes;
  CharSet set;
  for (uint32_t c = 1; c < 0x80; ++c) {
    if (c % 2 == 1) set.push_back({c, c});
  }
  classes.add_rule("r", classes.chars(set));
  const test::Acceptor acceptor(classes);
  for (uint32_t c = 1; c < 0x80; ++c) {
    EXPECT_EQ(acceptor.takes(std::string(1, static_cast<char>(c))), c % 2 == 1) << c;
  }
}

}  // namespace
}  // namespace loci
