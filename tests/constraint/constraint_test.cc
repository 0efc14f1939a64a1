// States and masks, over the vocabulary of a tiny model.
#include "engine/constraint/constraint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/constraint/gbnf.h"
#include "engine/spec/draft_tree.h"
#include "engine/text/tokenizer.h"
#include "gguf/gguf.h"
#include "tests/constraint/acceptor.h"
#include "tests/support/tiny_model.h"

namespace loci {
namespace {

class Constraints : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCI_NEEDS_XGRAMMAR();
    const gguf::File file = gguf::File::open(test::tiny_model_file({}));
    tokenizer_ = Tokenizer::from_metadata(file.metadata());
    compiler_ = std::make_unique<ConstraintCompiler>(*tokenizer_);
  }
  ConstraintState state(const std::string& gbnf, const ThinkingMarkers& thinking = {}) {
    return ConstraintState(compiler_->compile(parse_gbnf(gbnf), thinking));
  }
  int32_t id(const std::string& text) const { return tokenizer_->encode(text, false, true).at(0); }
  bool accept_all(ConstraintState& state, const std::string& text) const {
    for (const int32_t token : tokenizer_->encode(text, false, true)) {
      if (!state.allows(token) || !state.accept(token)) return false;
    }
    return true;
  }
  std::vector<int32_t> allowed(ConstraintState& state) const {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < tokenizer_->vocab_size(); ++token) {
      if (state.allows(token)) tokens.push_back(token);
    }
    return tokens;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ConstraintCompiler> compiler_;
};

TEST_F(Constraints, OnlyEndTokensFollowACompleteText) {
  ConstraintState s = state("root ::= \"ab\"");
  EXPECT_FALSE(s.allows(test::kTinyEndOfText));
  ASSERT_TRUE(accept_all(s, "ab"));
  EXPECT_TRUE(s.is_complete());
  for (const int32_t token : allowed(s)) EXPECT_TRUE(tokenizer_->is_end_of_generation(token)) << token;
  EXPECT_FALSE(allowed(s).empty());
  ASSERT_TRUE(s.accept(allowed(s).front()));
  EXPECT_FALSE(s.accept(id("a")));
}

TEST_F(Constraints, ControlTokensAreNeverText) {
  ConstraintState s = state("root ::= .*");
  for (const int32_t token : allowed(s)) {
    EXPECT_TRUE(tokenizer_->type(token) != TokenType::kControl || tokenizer_->is_end_of_generation(token)) << token;
  }
}

TEST_F(Constraints, ApplyForbidsTheRestAndWhatLiesPastTheVocabulary) {
  ConstraintState s = state("root ::= [xy]");
  std::vector<float> logits(static_cast<size_t>(tokenizer_->vocab_size()) + 7, 1.0f);
  s.apply(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool may = static_cast<int32_t>(i) == id("x") || static_cast<int32_t>(i) == id("y");
    EXPECT_EQ(std::isinf(logits[i]), !may) << i;
  }
}

TEST_F(Constraints, CopiesGoOnAlone) {
  ConstraintState a = state("root ::= \"x\" (\"1\" | \"2\")");
  ASSERT_TRUE(accept_all(a, "x"));
  ConstraintState b = a;
  ASSERT_TRUE(accept_all(a, "1"));
  EXPECT_TRUE(a.is_complete());
  EXPECT_FALSE(b.is_complete());
  EXPECT_TRUE(accept_all(b, "2"));
}

TEST_F(Constraints, EqualGrammarsAreCompiledOnce) {
  const auto first = compiler_->compile(parse_gbnf("root ::= \"a\"")),
             again = compiler_->compile(parse_gbnf("root ::= \"a\" # x"));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, compiler_->compile(parse_gbnf("root ::= \"b\"")));
  EXPECT_NE(first, compiler_->compile(parse_gbnf("root ::= \"a\""), {"<think>", "</think>", true}));
}

// The masks that prepare() finds behind drafts are those of walking there.
TEST_F(Constraints, MasksOfDraftsAreThoseOfTheirPlaces) {
  const std::string gbnf = "root ::= \"x\" [ab]+ \"y\" | \"z\"{3}";
  for (const bool thinking : {false, true}) {
    const ThinkingMarkers markers = thinking ? ThinkingMarkers{"<t>", "</t>", true} : ThinkingMarkers();
    ConstraintState s = state(gbnf, markers);
    if (thinking) {
      ASSERT_TRUE(accept_all(s, "hm</t"));
    }
    DraftTree tree;
    int32_t root = -1;
    if (thinking) tree.add(id(">"), -1, 1.0f), root = 0;
    tree.add(id("x"), root, 1.0f);
    const int32_t x = tree.size() - 1;
    tree.add(id("a"), x, 1.0f);
    tree.add(id("y"), x + 1, 1.0f);
    tree.add(id("b"), x, 1.0f);
    tree.add(id("q"), x, 1.0f);      // may not come
    tree.add(id("a"), x + 4, 1.0f);  // nor what follows it
    tree.add(id("z"), root, 1.0f);
    std::vector<int32_t> expected;
    for (int32_t node = 0; node < tree.size(); ++node) {
      if (node != x + 4 && node != x + 5) expected.push_back(node);
    }
    EXPECT_EQ(s.allowed_nodes(tree), expected);
    s.prepare(&tree);
    for (const std::vector<const char*>& path :
         std::vector<std::vector<const char*>>{{"x", "a", "y"}, {"x", "b"}, {"z"}, {"x", "a", "a"}}) {
      ConstraintState ahead = s, plain = state(gbnf, markers);
      if (thinking) {
        ASSERT_TRUE(accept_all(plain, "hm</t>") && ahead.accept(id(">")));
      }
      for (const char* text : path) {
        EXPECT_EQ(allowed(ahead), allowed(plain));
        ASSERT_TRUE(ahead.accept(id(text)) && plain.accept(id(text))) << text;
      }
      EXPECT_EQ(allowed(ahead), allowed(plain));
    }
  }
}

TEST_F(Constraints, ThinkingIsFreeAndTheAnswerIsNot) {
  ConstraintState s = state("root ::= \"42\"", {"<think>", "</think>", true});
  EXPECT_FALSE(s.allows(test::kTinyEndOfText));
  ASSERT_TRUE(accept_all(s, "plan {</thin x"));
  EXPECT_FALSE(s.is_complete());
  ASSERT_TRUE(accept_all(s, "</think>"));
  EXPECT_FALSE(s.allows(id("x")));
  EXPECT_TRUE(s.allows(id("4")));
  ASSERT_TRUE(accept_all(s, "\n\n42"));
  EXPECT_TRUE(s.is_complete());
}

TEST_F(Constraints, AModelThatMayThinkNeedNot) {
  // The tiny vocabulary has the marker as a control token.
  const ThinkingMarkers markers{"<|im_start|>", "</t>", false};
  ConstraintState direct = state("root ::= \"42\"", markers), thinks = direct;
  EXPECT_TRUE(direct.allows(test::kTinyImStart));
  ASSERT_TRUE(accept_all(direct, "42"));
  EXPECT_TRUE(direct.is_complete());
  ASSERT_TRUE(thinks.accept(test::kTinyImStart));
  ASSERT_TRUE(accept_all(thinks, "x</t>42"));
  EXPECT_TRUE(thinks.is_complete());
}

}  // namespace
}  // namespace loci
