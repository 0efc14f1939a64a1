#include "engine/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/text/unicode.h"
#include "tests/text/text_support.h"

namespace loci {
namespace {

using test::tiny_bpe;
using test::tiny_spm;
using test::VocabBuilder;

// All that a detokenizer gives for `ids`; every part must be valid UTF-8.
std::string stream(Detokenizer& detokenizer, const std::vector<int32_t>& ids) {
  std::string all;
  for (const int32_t id : ids) {
    const std::string part = detokenizer.add(id);
    EXPECT_TRUE(unicode::is_valid(part));
    all += part;
  }
  const std::string rest = detokenizer.finish();
  EXPECT_TRUE(unicode::is_valid(rest));
  return all + rest;
}

std::string streamed(const Tokenizer& t, const std::string& bytes, std::vector<std::string> stops,
                     std::string* met = nullptr) {
  Detokenizer detokenizer(t, std::move(stops));
  const std::string text = stream(detokenizer, t.encode(bytes, false, false));
  if (met != nullptr) *met = detokenizer.stop_found();
  return text;
}

TEST(Detokenizer, HoldsBackUnfinishedCharacters) {
  VocabBuilder vocab = tiny_bpe();
  const auto t = vocab.build();
  Detokenizer detokenizer(*t, {});
  const std::vector<int32_t> ids = t->encode("\u4E2D!", false, false);  // one token per byte
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(detokenizer.add(ids[0]), "");
  EXPECT_EQ(detokenizer.add(ids[1]), "");
  EXPECT_EQ(detokenizer.add(ids[2]), "\u4E2D");
  EXPECT_EQ(detokenizer.add(ids[0]), "");
  EXPECT_EQ(detokenizer.add(ids[3]), "\uFFFD!");
  EXPECT_EQ(detokenizer.add(ids[0]), "");
  EXPECT_EQ(detokenizer.add(ids[1]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
}

TEST(Detokenizer, StopsAndHoldsBackWhatMayBecomeAStop) {
  VocabBuilder vocab = tiny_bpe();
  const auto t = vocab.build();
  std::string met;
  EXPECT_EQ(streamed(*t, "abc\n\nUser: x", {"\n\nUser:"}, &met), "abc");
  EXPECT_EQ(met, "\n\nUser:");
  EXPECT_EQ(streamed(*t, "abc\n\nUse", {"\n\nUser:"}, &met), "abc\n\nUse");
  EXPECT_EQ(met, "");
  EXPECT_EQ(streamed(*t, "\u4E2D\n\n\u4E2D \U0001F600", {"\n\nUser:"}), "\u4E2D\n\n\u4E2D \U0001F600");
  // The one that is complete first counts, even when another began before it.
  EXPECT_EQ(streamed(*t, "xabcd", {"abcd", "bc"}, &met), "xa");
  EXPECT_EQ(met, "bc");
  EXPECT_EQ(streamed(*t, "xabc", {"bc", "abc"}, &met), "x");
  EXPECT_EQ(met, "abc");
  EXPECT_EQ(streamed(*t, "aab", {"ab"}), "a");
  // What cannot be met is ignored.
  EXPECT_EQ(streamed(*t, "abc", {"", "\xFF", "\xB8"}), "abc");

  Detokenizer detokenizer(*t, {"ab"});
  EXPECT_EQ(detokenizer.add(*t->find("a")), "");
  EXPECT_EQ(detokenizer.add(*t->find("b")), "");
  EXPECT_EQ(detokenizer.stop_found(), "ab");
  EXPECT_EQ(detokenizer.add(*t->find("c")), "");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, StopThatSpellsAControlTokenIsMetByTheToken) {
  VocabBuilder vocab = tiny_bpe();
  const auto t = vocab.build();
  const int32_t end = *t->find("<|end|>");
  const std::vector<int32_t> ids = t->encode("hi<|end|>hello", false, true);
  for (const bool show_special : {false, true}) {
    Detokenizer detokenizer(*t, {"<|end|>"}, show_special);
    EXPECT_EQ(stream(detokenizer, ids), "hi");
    EXPECT_EQ(detokenizer.stop_found(), "<|end|>");
  }
  // Text before it that waited for another stop string still comes out.
  Detokenizer waiting(*t, {"<|end|>", "hills"});
  EXPECT_EQ(waiting.add(*t->find("h")), "");
  EXPECT_EQ(waiting.add(end), "h");
  EXPECT_EQ(waiting.stop_found(), "<|end|>");
  // Without such a stop string control tokens show as nothing, or as their text when asked.
  Detokenizer plain(*t, {}), shown(*t, {}, true);
  EXPECT_EQ(stream(plain, ids), "hihello");
  EXPECT_EQ(stream(shown, ids), "hi<|end|>hello");
}

TEST(Detokenizer, LeadingSpaceOfSentencePiece) {
  VocabBuilder vocab = tiny_spm();
  const auto t = vocab.build();
  const std::vector<int32_t> ids = t->encode("hello wor", false, false);
  Detokenizer start(*t, {}), later(*t, {}, false, /*continues=*/true);
  EXPECT_EQ(stream(start, ids), "hello wor");
  EXPECT_EQ(stream(later, ids), " hello wor");
}

// Any tokens: the stream is what one-shot decoding gives, made valid, up to the first stop string.
TEST(Detokenizer, StreamsWhatDecodeGives) {
  std::mt19937 random(29);
  for (VocabBuilder vocab : {tiny_bpe(), tiny_spm()}) {
    const auto t = vocab.build();
    for (int round = 0; round < 1000; ++round) {
      std::vector<int32_t> ids;
      for (size_t n = random() % 40; n > 0; --n) {
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(t->vocab_size())));
      }
      for (const bool special : {false, true}) {
        const std::string expected = unicode::sanitized(t->decode(ids, special));
        Detokenizer plain(*t, {}, special), unmet(*t, {"\uFFFD\uFFFD never", "hell\u0416", "<|en\u0416"}, special);
        ASSERT_EQ(stream(plain, ids), expected);
        ASSERT_EQ(stream(unmet, ids), expected);
        if (expected.size() < 4) continue;
        size_t begin = random() % (expected.size() - 2);
        while (begin > 0 && (static_cast<uint8_t>(expected[begin]) & 0xC0) == 0x80) --begin;
        size_t end = begin + 2;
        while (end < expected.size() && (static_cast<uint8_t>(expected[end]) & 0xC0) == 0x80) ++end;
        const std::string stop = expected.substr(begin, end - begin);
        Detokenizer stopping(*t, {stop}, special);
        ASSERT_EQ(stream(stopping, ids), expected.substr(0, expected.find(stop)));
        ASSERT_EQ(stopping.stop_found(), stop);
      }
    }
  }
}

}  // namespace
}  // namespace loci
