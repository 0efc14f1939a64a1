#include "engine/text/unicode.h"

#include <algorithm>
#include <vector>

#include "engine/text/unicode_tables.h"

namespace loci::unicode {
namespace {

// Below this, categories are looked up in a flat table; above, by binary search over the runs.
constexpr uint32_t kFlatSize = 0x20000;

uint8_t run_category(uint32_t cp) {
  const CategoryRun* end = kCategoryRuns + kCategoryRunsSize;
  const CategoryRun* run =
      std::upper_bound(kCategoryRuns, end, cp, [](uint32_t value, const CategoryRun& r) { return value < r.first; });
  return run[-1].category;  // the first run starts at 0
}

std::vector<uint8_t> make_flat_categories() {
  std::vector<uint8_t> flat(kFlatSize);
  for (size_t i = 0; i < kCategoryRunsSize && kCategoryRuns[i].first < kFlatSize; ++i) {
    const uint32_t end = i + 1 < kCategoryRunsSize ? std::min(kCategoryRuns[i + 1].first, kFlatSize) : kFlatSize;
    std::fill(flat.begin() + kCategoryRuns[i].first, flat.begin() + end, kCategoryRuns[i].category);
  }
  return flat;
}

}  // namespace

Decoded decode(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[pos + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  // The second byte's range is narrower after some lead bytes: no overlong forms, surrogates or values past 10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  uint8_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {kReplacement, 1, false, false};
  }
  uint32_t cp = lead & (0x7F >> length);
  for (uint8_t i = 1; i < length; ++i) {
    if (pos + i >= text.size()) return {kReplacement, i, false, true};
    if (byte(i) < low || byte(i) > high) return {kReplacement, i, false, false};
    cp = cp << 6 | (byte(i) & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {cp, length, true, false};
}

void append(std::string& out, uint32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xC0 | cp >> 6);
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xE0 | cp >> 12);
    out += static_cast<char>(0x80 | (cp >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | cp >> 18);
    out += static_cast<char>(0x80 | (cp >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (cp >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  }
}

bool is_valid(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Decoded d = decode(text, pos);
    if (!d.valid) return false;
    pos += d.length;
  }
  return true;
}

std::string sanitized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Decoded d = decode(text, pos);
    if (d.valid) {
      out += text.substr(pos, d.length);
    } else {
      append(out, kReplacement);
    }
    pos += d.length;
  }
  return out;
}

Category category(uint32_t cp) {
  static const std::vector<uint8_t> flat = make_flat_categories();
  return static_cast<Category>(cp < kFlatSize ? flat[cp] : run_category(cp));
}

bool is_whitespace(uint32_t cp) {
  if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
  return cp == 0x85 || (bit(category(cp)) & kSeparator) != 0;
}

uint32_t to_lower(uint32_t cp) {
  if (cp < 0x80) return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
  const LowerPair* end = kLower + kLowerSize;
  const LowerPair* pair =
      std::lower_bound(kLower, end, cp, [](const LowerPair& p, uint32_t value) { return p.from < value; });
  return pair != end && pair->from == cp ? pair->to : cp;
}

std::array<uint32_t, 3> strip_marks(uint32_t cp) {
  if (cp < 0xC0) return {cp, 0, 0};
  if (cp >= 0xAC00 && cp <= 0xD7A3) {  // Hangul syllables decompose by arithmetic (Unicode 3.12)
    const uint32_t s = cp - 0xAC00;
    const uint32_t tail = s % 28;
    return {0x1100 + s / 588, 0x1161 + s % 588 / 28, tail != 0 ? 0x11A7 + tail : 0};
  }
  const StrippedEntry* end = kStripped + kStrippedSize;
  const StrippedEntry* entry =
      std::lower_bound(kStripped, end, cp, [](const StrippedEntry& e, uint32_t value) { return e.from < value; });
  if (entry == end || entry->from != cp) return {cp, 0, 0};
  return {entry->to[0], entry->to[1], entry->to[2]};
}

}  // namespace loci::unicode
