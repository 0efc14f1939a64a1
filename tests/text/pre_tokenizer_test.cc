#include "engine/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/text/text_support.h"

namespace loci {
namespace {

std::vector<std::string> split(const PreTokenizer& rule, const std::string& text) {
  std::vector<size_t> ends;
  rule.split(text, ends);
  std::vector<std::string> words;
  size_t begin = 0;
  for (const size_t end : ends) {
    EXPECT_LT(begin, end);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

// tests/data/tokenizer_splits.json: the same patterns through the Python package regex.
TEST(PreTokenizer, SplitsAsPythonRegexDoes) {
  const std::filesystem::path file = std::filesystem::path(LOCI_TEST_DATA) / "tokenizer_splits.json";
  const nlohmann::json golden = nlohmann::json::parse(test::read_bytes(file));
  ASSERT_GE(golden.size(), 12u);
  for (const auto& [name, cases] : golden.items()) {
    const auto rule = PreTokenizer::find(name);
    ASSERT_NE(rule, nullptr) << name;
    for (const auto& expected : cases) {
      const std::vector<std::string> words = expected;
      std::string text;
      for (const std::string& word : words) text += word;
      EXPECT_EQ(split(*rule, text), words) << name << ": " << text;
    }
  }
}

TEST(PreTokenizer, TrailingSpacesAloneMatchTheEndAnchor) {
  const auto rule = PreTokenizer::find("deepseek-llm");
  EXPECT_EQ(split(*rule, "\u4E2D   "), (std::vector<std::string>{"\u4E2D", "   "}));
  EXPECT_EQ(split(*rule, "12  \u4E2D"), (std::vector<std::string>{"12", "  ", "\u4E2D"}));
}

TEST(PreTokenizer, EveryNameHasARuleAndOthersHaveNone) {
  for (const std::string& name : PreTokenizer::names()) EXPECT_NE(PreTokenizer::find(name), nullptr) << name;
  EXPECT_EQ(PreTokenizer::find("no-such-rule"), nullptr);
  EXPECT_EQ(PreTokenizer::find(""), nullptr);
}

TEST(PreTokenizer, IllFormedBytesStayWhatTheyAre) {
  for (const std::string& name : PreTokenizer::names()) {
    const auto rule = PreTokenizer::find(name);
    split(*rule, "a\xFF\xE4\xB8 b\x80");
    split(*rule, std::string("\0a\0", 3));
  }
}

// Long runs of every kind of character, and of alternating kinds, under every rule: linear time.
TEST(PreTokenizer, LongRunsTakeLinearTime) {
  const std::vector<std::string> units = {"a",    "A",      "Aa",      "\u0301",  "A\u0301", "\u4E2D", "7", " ",
                                          "\n",   "\r",     " \n",     "\t x",    "!",       "/",      "'", "'s",
                                          "\xFF", "\u00A0", "\u0E33A", "\u02B0B", " \u3000", "!\n",    "a'"};
  for (const char* name :
       {"default", "gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "minicpm5", "seed-coder", "bailingmoe", "tekken",
        "gpt-4o", "deepseek-v3", "deepseek-coder", "deepseek-llm", "falcon", "viking", "gemma4"}) {
    const auto rule = PreTokenizer::find(name);
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& unit : units) {
      std::string text;
      while (text.size() < 6000) text += unit;
      std::vector<size_t> ends;
      rule->split(text, ends);
      text += "x";
      rule->split(text, ends);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 5) << name;  // quadratic time would take minutes
  }
}

}  // namespace
}  // namespace loci
