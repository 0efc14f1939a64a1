#include "engine/constraint/gbnf.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/constraint/acceptor.h"

namespace loci {
namespace {

using test::Acceptor;

std::string error(const std::string& text) {
  return test::outcome_of([&] { parse_gbnf(text); });
}

TEST(Gbnf, NotationMeansWhatItSays) {
  LOCI_NEEDS_XGRAMMAR();
  const Acceptor a(parse_gbnf(R"(# a list
root  ::= item ("," " "? item){0,2} tail*   # up to three
item  ::= [a-c]+ | "x\"\\\n" | [^\x00-\x7F] | low-er
low-er ::= "\u00e9" "\U0001F999"
tail ::= (
  "!"
  | "?" .
)
)"));
  for (const char* good : {"a", "abc,b", "a, b,c", "x\"\\\n", "ü", "é🦙", "a!", "a?z!", "a?é"}) {
    EXPECT_TRUE(a.takes(good)) << good;
  }
  for (const char* bad : {"", "d", "a,", "a,  b", "a,b,c,a", "a?", "🦙é"}) EXPECT_FALSE(a.takes(bad)) << bad;
}

TEST(Gbnf, RepetitionsCount) {
  LOCI_NEEDS_XGRAMMAR();
  const Acceptor a(parse_gbnf(R"(root ::= "a"{2} "b"{1,} "c"{,2} "d"{0}
)"));
  for (const char* good : {"aab", "aabbb", "aabcc"}) EXPECT_TRUE(a.takes(good)) << good;
  for (const char* bad : {"ab", "aa", "aabccc", "aabd"}) EXPECT_FALSE(a.takes(bad)) << bad;
  const Acceptor many(parse_gbnf(R"(root ::= ("ab"){100,300})"));
  std::string text;
  for (int i = 1; i <= 301; ++i) {
    text += "ab";
    EXPECT_EQ(many.takes(text), i >= 100 && i <= 300) << i;
  }
}

TEST(Gbnf, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error(""), "grammar: line 1, column 1: expected a rule 'root ::= ...', found nothing");
  EXPECT_EQ(error("rout ::= \"a\""), "grammar: expected a rule 'root', found none");
  EXPECT_EQ(error("root := \"a\""), "grammar: line 1, column 6: expected ::= behind the rule's name, found ':'");
  EXPECT_EQ(error("root ::= \"a\"\n\nb ::= nothere"),
            "grammar: line 3, column 7: expected a rule that is defined, found 'nothere', which is not");
  EXPECT_EQ(error("root ::= \"abc"),
            "grammar: line 1, column 10: expected a closing '\"' on the same line, found none");
  EXPECT_EQ(error("root ::= ["), "grammar: line 1, column 10: expected a closing ']' on the same line, found none");
  EXPECT_EQ(error("root ::= [z-a]"),
            "grammar: line 1, column 11: expected a range from a lower to a higher character, found 'z-a'");
  EXPECT_EQ(error("root ::= *"), "grammar: line 1, column 10: expected something to repeat, found '*'");
  EXPECT_EQ(error("root ::= \"a\"{3,1}"),
            "grammar: line 1, column 13: expected a count range {m,n} with m <= n, found {3,1}");
  EXPECT_EQ(error("root ::= (\"a\""), "grammar: line 1, column 14: expected ')', found the end of the text");
  EXPECT_EQ(error("root ::= \"\\q\"").substr(0, 47), "grammar: line 1, column 11: expected an escape:");
  EXPECT_EQ(error("root ::= \"a\"\nroot ::= \"b\""),
            "grammar: line 2, column 1: expected each rule once, found 'root' again");
  EXPECT_NE(error("root ::= <think> \"a\"").find("a reference to a token, which is not supported"), std::string::npos);
  EXPECT_NE(error("root ::= \"\\x00\"").find("expected a character that can be produced, found U+0000"),
            std::string::npos);
}

TEST(Gbnf, RulesThatCannotWorkAreNamed) {
  EXPECT_EQ(error("root ::= root \"a\" | \"b\""),
            "grammar: rule 'root' refers to itself before any character (left recursion)");
  EXPECT_EQ(error("root ::= a\na ::= \"\" b\nb ::= a \"x\" | \"y\""),
            "grammar: rule 'a' refers to itself before any character (left recursion)");
  EXPECT_EQ(error("root ::= \"a\" root"), "grammar: rule 'root' can never be completed: no text matches it");
  EXPECT_EQ(error("root ::= [^\\x00-\\U0010FFFF]"), "grammar: rule 'root' can never be completed: no text matches it");
  EXPECT_EQ(error("root ::= \"a\" root | \"\""), "no error");
}

TEST(Gbnf, EmptyTextIsAnAnswer) {
  LOCI_NEEDS_XGRAMMAR();
  for (const char* text : {"root ::= \"\"", "root ::= (\"\")*", "root ::= |\"a\""}) {
    const Acceptor a(parse_gbnf(text));
    EXPECT_TRUE(a.takes("")) << text;
    EXPECT_FALSE(a.takes("b")) << text;
  }
}

// Each is refused or compiled within a bound that is generous for a busy machine.
TEST(Gbnf, HostileGrammarsAreBounded) {
  const auto repeated = [](const std::string& text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += str("r", i, " ::= r", i + 1, "\n");
  std::string short_chain = "root ::= r0\n";
  for (int i = 0; i < 390; ++i) short_chain += str("r", i, " ::= r", i + 1, " | \"x\"\n");
  std::string words = "root ::= \"w\"";
  for (int i = 0; i < 5000; ++i) words += str(" | \"word", i * 7919 % 10007, "\"");
  const std::pair<std::string, const char*> cases[] = {
      {"root ::= " + repeated("(", 60000) + "\"a\"" + repeated(")", 60000), "at most 100 parentheses"},
      {chain + "r5000 ::= \"a\"", "too deep"},
      {short_chain + "r390 ::= \"a\"", "no error"},
      {"root ::= \"a\"{1,1000000000}", "at most 20000 repetitions"},
      {"root ::= (((\"a\"{1,1000}){1,1000}){1,1000})", "too large"},
      {"root ::= a{1,1000}\na ::= b{1,1000}\nb ::= \"c\"{1,1000}", "no error"},
      {"root ::= (\"a\" | \"aa\" | \"aaa\")*", "no error"},
      {"root ::= ((((\"a\"*)*)*)*)*", "no error"},
      {"root ::= " + repeated("\"a\"? ", 2000), "no error"},
      {"root ::= [a-z]{1,20000}", "no error"},
      {"root ::= \"" + repeated("a", 300000) + "\"", "at most 262144 bytes"},
      {words, "no error"},
  };
  for (const auto& [text, expected] : cases) {
    const auto start = std::chrono::steady_clock::now();
    const std::string found = test::outcome_of([&] {
      const Grammar grammar = parse_gbnf(text);
      if (!LOCI_HAS_XGRAMMAR) return;
      const Acceptor acceptor(grammar);
      const std::unique_ptr<Matcher> matcher = acceptor.start();
      std::vector<uint32_t> mask(9);
      for (int i = 0; i < 40; ++i) {
        matcher->fill_mask(mask);
        if (!matcher->accept('a')) break;
      }
    });
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_NE(found.find(expected), std::string::npos) << text.substr(0, 60) << ": " << found.substr(0, 200);
    EXPECT_LT(s, 20 * test::kPatience) << text.substr(0, 60);
    if (std::getenv("LOCI_SHOW_TIMES") != nullptr) printf("%8.3f s  %s\n", s, text.substr(0, 60).c_str());
  }
}

}  // namespace
}  // namespace loci
