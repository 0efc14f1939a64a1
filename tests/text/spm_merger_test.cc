// SpmMerger against the sentencepiece library, which SpmTokenizer uses for the same vocabulary.
#include "engine/text/spm_merger.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/text/text_support.h"

namespace loci {
namespace {

std::unique_ptr<Vocabulary> vocabulary(test::VocabBuilder& builder) {
  return load_vocabulary(builder.metadata(), /*default_add_bos=*/true);
}

std::vector<int32_t> merged(const SpmMerger& merger, std::string_view text) {
  std::vector<int32_t> ids;
  merger.encode(text, ids);
  return ids;
}

TEST(SpmMerger, AgreesWithTheLibrary) {
  std::mt19937 random(3);
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", " ", "\u00E9", "\u4E2D", "\u2581", "\n"};
  for (int round = 0; round < 100; ++round) {
    test::VocabBuilder builder("llama");
    builder.set_bool("tokenizer.ggml.add_space_prefix", false);
    builder.add("<unk>", TokenType::kUnknown);
    builder.add_byte_tokens();
    builder.add("\u2581", TokenType::kNormal, -50);
    // Pieces grow from pieces, so that merges reach them; scores repeat, so that ties are met; some are unused.
    std::vector<std::string> pieces = {"a", "b", "\u2581", "\u00E9"};
    for (const std::string& piece : {std::string("a"), std::string("b"), std::string("\u00E9")}) builder.add(piece);
    for (int i = 0; i < 25; ++i) {
      const std::string piece = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
      if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) continue;
      pieces.push_back(piece);
      const TokenType type = random() % 6 == 0 ? TokenType::kUnused : TokenType::kNormal;
      builder.add(piece, type, -static_cast<double>(random() % 12));
    }
    const auto tokenizer = builder.build();
    const auto vocab = vocabulary(builder);
    const SpmMerger merger(*vocab);
    ASSERT_TRUE(merger.has_canonical_bytes());
    for (int i = 0; i < 30; ++i) {
      std::string text;
      for (size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
      EXPECT_EQ(tokenizer->encode(text, false, false), merged(merger, text)) << text;
    }
  }
}

// Cutting at segment ends changes nothing.
TEST(SpmMerger, SegmentsMergeIndependently) {
  test::VocabBuilder builder("llama");
  builder.add("<unk>", TokenType::kUnknown);
  builder.add_byte_tokens();
  double score = 0;
  for (const char* piece : {"\u2581", "a", "b", ">", "\u2581a", "a>", ">\u2581", ">\u2581a", "b\u2581\u2581", "ab"}) {
    builder.add(piece, TokenType::kNormal, --score);
  }
  const auto vocab = vocabulary(builder);
  const SpmMerger merger(*vocab);
  EXPECT_EQ(merger.segment_end("a a", 0), 1u);
  EXPECT_EQ(merger.segment_end("a> a", 0), 4u);  // ">" can join a following space
  EXPECT_EQ(merger.segment_end("ab a", 0), 4u);  // so can "b"
  EXPECT_EQ(merger.segment_end(" a", 0), 2u);
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += "ab> c"[random() % 5];
    std::vector<int32_t> by_segment;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = merger.segment_end(text, begin);
      ASSERT_GT(end, begin);
      merger.encode(std::string_view(text).substr(begin, end - begin), by_segment);
      begin = end;
    }
    EXPECT_EQ(by_segment, merged(merger, text)) << text;
  }
}

TEST(SpmMerger, UnusedTokensAreWrittenAsTheirParts) {
  test::VocabBuilder builder("llama");
  builder.add("<unk>", TokenType::kUnknown);
  builder.add_byte_tokens();
  builder.add("\u2581");
  const int32_t a = builder.add("a"), b = builder.add("b");
  builder.add("ab", TokenType::kUnused, 5);
  const int32_t abb = builder.add("abb", TokenType::kNormal, 4);
  const auto vocab = vocabulary(builder);
  const SpmMerger merger(*vocab);
  EXPECT_EQ(merged(merger, "ab"), (std::vector<int32_t>{a, b}));
  EXPECT_EQ(merged(merger, "abb"), (std::vector<int32_t>{abb}));
}

TEST(SpmMerger, WithoutByteTokens) {
  test::VocabBuilder builder("llama");
  const int32_t unk = builder.add("<unk>", TokenType::kUnknown);
  builder.set_int("tokenizer.ggml.unknown_token_id", unk);
  const int32_t space = builder.add("\u2581"), a = builder.add("a");
  const auto tokenizer = builder.build();
  EXPECT_EQ(tokenizer->encode("a\u4E2D\u4E2Da", false, false), (std::vector<int32_t>{space, a, unk, unk, a}));
  EXPECT_EQ(tokenizer->encode("\xFF\xFF", false, false), (std::vector<int32_t>{space, unk, unk}));
}

}  // namespace
}  // namespace loci
