// UTF-8 and the few Unicode properties that tokenizers need. No locale, no allocation beyond the caller's string.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace loci::unicode {

// General category, in the order of scripts/make_unicode_tables.py.
enum Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo
};

// Sets of categories as bit masks.
constexpr uint32_t bit(Category category) { return uint32_t{1} << category; }
constexpr uint32_t kLetter = bit(kLu) | bit(kLl) | bit(kLt) | bit(kLm) | bit(kLo);
constexpr uint32_t kMark = bit(kMn) | bit(kMc) | bit(kMe);
constexpr uint32_t kNumber = bit(kNd) | bit(kNl) | bit(kNo);
constexpr uint32_t kPunctuation = bit(kPc) | bit(kPd) | bit(kPs) | bit(kPe) | bit(kPi) | bit(kPf) | bit(kPo);
constexpr uint32_t kSymbol = bit(kSm) | bit(kSc) | bit(kSk) | bit(kSo);
constexpr uint32_t kSeparator = bit(kZs) | bit(kZl) | bit(kZp);

constexpr uint32_t kReplacement = 0xFFFD;

// One step of decoding. Ill-formed input gives cp = kReplacement and the length of the maximal subpart (Unicode
// 3.9, D93b): the bytes that a conforming decoder replaces by one U+FFFD. `truncated`: the text ends inside a
// character that more bytes could complete.
struct Decoded {
  uint32_t cp;
  uint8_t length;
  bool valid;
  bool truncated;
};
// REQUIRES: pos < text.size().
Decoded decode(std::string_view text, size_t pos);

void append(std::string& out, uint32_t cp);
bool is_valid(std::string_view text);
// `text` with every maximal ill-formed subpart replaced by U+FFFD.
std::string sanitized(std::string_view text);

Category category(uint32_t cp);
bool is_whitespace(uint32_t cp);  // the White_Space property
uint32_t to_lower(uint32_t cp);   // simple mapping
// Canonical decomposition without nonspacing marks; unused entries are 0.
std::array<uint32_t, 3> strip_marks(uint32_t cp);

}  // namespace loci::unicode
