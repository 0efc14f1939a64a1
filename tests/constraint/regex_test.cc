#include "engine/constraint/regex.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/constraint/acceptor.h"

namespace loci {
namespace {

Grammar grammar_of(const std::string& pattern, RegexUse use) {
  Grammar grammar;
  grammar.set_root(grammar.add_rule("r"));
  grammar.define(0, add_regex(grammar, pattern, use));
  grammar.check();
  return grammar;
}
std::string error(const std::string& pattern) {
  return test::outcome_of([&] { grammar_of(pattern, RegexUse::kWholeText); });
}

TEST(Regex, SyntaxMeansWhatItSays) {
  LOCI_NEEDS_XGRAMMAR();
  struct Case {
    const char* pattern;
    std::vector<std::string> good, bad;
  };
  const Case cases[] = {
      {"^a+b?$", {"a", "aab"}, {"", "b", "abb"}},
      {"[0-9]{3}-\\d{4,5}", {"555-1234", "555-12345"}, {"55-1234", "555-123456"}},
      {"(cat|dog)s{0,1}", {"cat", "dogs"}, {"cats?", "bird"}},
      {"(?:ab)+(?<name>c|)", {"ab", "ababc"}, {"", "c"}},
      {"\\w+\\s\\W", {"a_1 !"}, {"a_1!", " !"}},
      {"[^a-c]", {"d", "é", "5"}, {"a", ""}},
      {"[^a-c\\d]", {"d", "!"}, {"a", "5", "é", ""}},  // what counts as a digit beyond ASCII depends on the dialect
      {"[\\]\\-x]", {"]", "-", "x"}, {"\\"}},
      {"\\.\\/\\u0041\\x42", {"./AB"}, {"x/AB"}},
      {".", {"x", "🦙"}, {"\n", ""}},
      {"a*?b", {"b", "aab"}, {"a"}},
      {"x{2", {"x{2"}, {"xx"}},
      {"", {""}, {"a"}},
  };
  for (const Case& c : cases) {
    const test::Acceptor acceptor(grammar_of(c.pattern, RegexUse::kWholeText));
    for (const std::string& text : c.good) EXPECT_TRUE(acceptor.takes(text)) << c.pattern << " on " << text;
    for (const std::string& text : c.bad) EXPECT_FALSE(acceptor.takes(text)) << c.pattern << " on " << text;
  }
}

TEST(Regex, InJsonStringsItSearchesAndEscapes) {
  LOCI_NEEDS_XGRAMMAR();
  const test::Acceptor open(grammar_of("b\"", RegexUse::kJsonString));
  EXPECT_TRUE(open.takes(R"(b\")"));
  EXPECT_TRUE(open.takes(R"(aab\"\nz)"));
  EXPECT_FALSE(open.takes(R"(b")"));
  const test::Acceptor closed(grammar_of("^[\\s\\\\]$", RegexUse::kJsonString));
  for (const char* good : {" ", "\\n", "\\t", "\\\\", "\\u000b"}) EXPECT_TRUE(closed.takes(good)) << good;
  for (const char* bad : {"\n", "\\", "x", ""}) EXPECT_FALSE(closed.takes(bad)) << bad;
  const test::Acceptor either(grammar_of("^a|b$", RegexUse::kJsonString));
  for (const char* good : {"ax", "xb", "a", "b"}) EXPECT_TRUE(either.takes(good)) << good;
  EXPECT_FALSE(either.takes("xa"));
}

TEST(Regex, WhatIsWrongOrMissingIsSaid) {
  EXPECT_EQ(error("^*a$"), "position 1: expected something to repeat, found '*'");
  EXPECT_EQ(error("a**"), "position 2: expected one quantifier, found two");
  EXPECT_EQ(error("(a"), "position 2: expected ')', found the end");
  EXPECT_EQ(error("a)"), "position 1: expected the end of the pattern, found ')'");
  EXPECT_EQ(error("[z-a]"), "position 1: expected a range from a lower to a higher character, found 'z-a'");
  EXPECT_EQ(error("[a"), "position 0: expected a closing ']', found none");
  EXPECT_EQ(error("a{3,1}"), "position 6: expected a count range {m,n} with m <= n, found {3,1}");
  EXPECT_EQ(error("\\d{99999}"), "position 8: expected at most 20000 repetitions, found more");
  EXPECT_EQ(error("a\\"), "position 2: expected a character behind '\\', found the end");
  EXPECT_EQ(error("^(?<=x)+$"), "position 1: look-around is not supported");
  EXPECT_EQ(error("^(a)\\1$"), "position 4: a back reference is not supported");
  EXPECT_EQ(error("\\bword"), "position 0: a word boundary is not supported");
  EXPECT_EQ(error("\\p{L}"), "position 0: the escape \\p is not supported");
  EXPECT_EQ(error("a(^b)"), "position 2: '^' inside a pattern is not supported");
  EXPECT_EQ(error("(a$)b"), "position 2: '$' inside a pattern is not supported");
  EXPECT_EQ(error("[a]+b{1,2}+"), "position 10: a possessive quantifier is not supported");
}

TEST(Regex, HostilePatternsAreBounded) {
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += '(';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(error(deep).find("at most 50 groups"), std::string::npos);
  EXPECT_NE(error(std::string(20000, 'a')).find("at most 16384 bytes"), std::string::npos);
  EXPECT_NE(error("((a{1,1000}){1,1000}){1,1000}").find("too large"), std::string::npos);
  if (LOCI_HAS_XGRAMMAR) {
    const test::Acceptor nested(grammar_of("^(a+)+$", RegexUse::kWholeText));
    EXPECT_TRUE(nested.takes(std::string(200, 'a')));
    EXPECT_FALSE(nested.takes(std::string(200, 'a') + "b"));
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10 * test::kPatience);
}

}  // namespace
}  // namespace loci
