#include "engine/text/unicode.h"

#include <gtest/gtest.h>

namespace loci::unicode {
namespace {

TEST(Unicode, DecodesWellFormedText) {
  const std::string text = "a\u00E9\u4E2D\U0001F600";
  size_t pos = 0;
  for (const uint32_t cp : {0x61u, 0xE9u, 0x4E2Du, 0x1F600u}) {
    const Decoded d = decode(text, pos);
    EXPECT_TRUE(d.valid);
    EXPECT_EQ(d.cp, cp);
    std::string again;
    append(again, cp);
    EXPECT_EQ(again, text.substr(pos, d.length));
    pos += d.length;
  }
  EXPECT_EQ(pos, text.size());
}

// Unicode 15, table 3-8 and its neighbours: one U+FFFD per maximal subpart.
TEST(Unicode, ReplacesMaximalSubparts) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(sanitized("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(sanitized("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(sanitized("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(sanitized("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(sanitized("x\xE4\xB8"), "x" + r);
  EXPECT_TRUE(decode("\xE4\xB8", 0).truncated);
  EXPECT_FALSE(decode("\xE4\x41", 0).truncated);
  EXPECT_FALSE(is_valid("\xE4\xB8"));
  EXPECT_TRUE(is_valid(std::string("a\0b", 3)));
}

TEST(Unicode, Categories) {
  EXPECT_EQ(category('a'), kLl);
  EXPECT_EQ(category('5'), kNd);
  EXPECT_EQ(category('$'), kSc);
  EXPECT_EQ(category(0x01C5), kLt);
  EXPECT_EQ(category(0x0301), kMn);
  EXPECT_EQ(category(0x4E2D), kLo);
  EXPECT_EQ(category(0x2167), kNl);
  EXPECT_EQ(category(0x1F600), kSo);
  EXPECT_EQ(category(0x20000), kLo);
  EXPECT_EQ(category(0x10FFFF), kCn);
  EXPECT_EQ(category(0x10FFFD), kCo);
}

TEST(Unicode, WhitespaceIsTheProperty) {
  int count = 0;
  for (uint32_t cp = 0; cp <= 0x10FFFF; ++cp) count += is_whitespace(cp);
  EXPECT_EQ(count, 25);
  EXPECT_TRUE(is_whitespace(0x85));
  EXPECT_TRUE(is_whitespace(0x3000));
  EXPECT_FALSE(is_whitespace(0x200B));
}

TEST(Unicode, LowerCaseAndMarks) {
  EXPECT_EQ(to_lower('Z'), static_cast<uint32_t>('z'));
  EXPECT_EQ(to_lower(0x0416), 0x0436u);
  EXPECT_EQ(to_lower(0x4E2D), 0x4E2Du);
  EXPECT_EQ(strip_marks(0xE9)[0], static_cast<uint32_t>('e'));
  EXPECT_EQ(strip_marks(0x1EED)[0], static_cast<uint32_t>('u'));
  EXPECT_EQ(strip_marks(0x0301)[0], 0u);
  EXPECT_EQ(strip_marks('x')[0], static_cast<uint32_t>('x'));
  const std::array<uint32_t, 3> han = strip_marks(0xD55C);
  EXPECT_EQ(han, (std::array<uint32_t, 3>{0x1112, 0x1161, 0x11AB}));
}

}  // namespace
}  // namespace loci::unicode
