#include "engine/text/jinja/unicode.h"

#include <cstring>

namespace loci::jinja {

CodePoint decode_at(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(pos);
  if (first < 0x80) return {first, 1};
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const CodePoint invalid{0xDC00u + first, 1};
  if (first < 0xC2 || first > 0xF4 || pos + size > text.size()) return invalid;
  uint32_t value = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(pos + i) & 0xC0) != 0x80) return invalid;
    value = value << 6 | (byte(pos + i) & 0x3Fu);
  }
  const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return invalid;
  return {value, size};
}

size_t previous(std::string_view text, size_t end) {
  // At most three continuation bytes belong to the code point; otherwise the last byte stands alone.
  for (size_t back = 2; back <= 4 && back <= end; ++back) {
    const size_t start = end - back;
    if ((static_cast<uint8_t>(text[end - 1]) & 0xC0) != 0x80) break;
    if (decode_at(text.substr(0, end), start).size == back) return start;
  }
  return end - 1;
}

namespace {

// Bytes below 0x80 at text[pos], in steps of eight.
size_t ascii_run(std::string_view text, size_t pos) {
  const size_t begin = pos;
  for (; pos + 8 <= text.size(); pos += 8) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + pos, 8);
    if ((bytes & 0x8080808080808080u) != 0) break;
  }
  return pos - begin;
}

}  // namespace

size_t count_code_points(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t run = ascii_run(text, i);
    i += run;
    n += run;
    for (int k = 0; k < 8 && i < text.size(); ++k, ++n) i += decode_at(text, i).size;
  }
  return n;
}

size_t offset_of(std::string_view text, size_t n) {
  size_t i = 0;
  while (n > 0 && i < text.size()) {
    if (n >= 8) {
      const size_t run = ascii_run(text.substr(0, i + n), i);  // no more than n code points
      i += run;
      n -= run;
    }
    for (int k = 0; k < 8 && n > 0 && i < text.size(); ++k, --n) i += decode_at(text, i).size;
  }
  return i;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c >= 0xDC80 && c <= 0xDCFF) {  // an invalid byte goes back as it was
    out += static_cast<char>(c - 0xDC00);
  } else if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) return false;
  if (c < 0x300) return true;
  if (c != ' ' && is_space(c)) return false;
  if ((c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F)) return false;
  if (c == 0x061C || c == 0x180E || c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB)) return false;
  if ((c >= 0x600 && c <= 0x605) || c == 0x6DD || c == 0x70F) return false;
  if (c >= 0xD800 && c <= 0xF8FF) return false;  // surrogates (our invalid bytes too), private use
  return (c & 0xFFFE) != 0xFFFE && c < 0xE0000;
}

namespace {

bool is_between(uint32_t c, uint32_t low, uint32_t high) { return c >= low && c <= high; }

// Blocks in which capital and small letters alternate, the capital first at even (0) or odd (1) code points.
int alternating(uint32_t c) {
  if (is_between(c, 0x100, 0x137) && c != 0x130 && c != 0x131) return 0;
  if (is_between(c, 0x139, 0x148)) return 1;
  if (is_between(c, 0x14A, 0x177)) return 0;
  if (is_between(c, 0x179, 0x17E)) return 1;
  if (is_between(c, 0x1CD, 0x1DC)) return 1;
  if (is_between(c, 0x1DE, 0x1EF) || is_between(c, 0x1F8, 0x21F) || is_between(c, 0x222, 0x233)) return 0;
  if (is_between(c, 0x3D8, 0x3EF) || is_between(c, 0x460, 0x481) || is_between(c, 0x48A, 0x4BF)) return 0;
  if (is_between(c, 0x4C1, 0x4CE)) return 1;
  if (is_between(c, 0x4D0, 0x52F)) return 0;
  if (is_between(c, 0x1E00, 0x1E95) || is_between(c, 0x1EA0, 0x1EFF)) return 0;
  return -1;
}

}  // namespace

uint32_t to_upper(uint32_t c) {
  if (is_between(c, 'a', 'z')) return c - 32;
  if (c < 0x80) return c;
  if (c == 0xB5) return 0x39C;
  if (is_between(c, 0xE0, 0xFE) && c != 0xF7) return c - 32;
  if (c == 0xFF) return 0x178;
  if (c == 0x131) return 'I';
  if (c == 0x17F) return 'S';
  const int parity = alternating(c);
  if (parity >= 0) return (c & 1) != static_cast<uint32_t>(parity) ? c - 1 : c;
  if (c == 0x3AC) return 0x386;
  if (is_between(c, 0x3AD, 0x3AF)) return c - 37;
  if (c == 0x3C2) return 0x3A3;
  if (is_between(c, 0x3B1, 0x3CB)) return c - 32;
  if (c == 0x3CC) return 0x38C;
  if (c == 0x3CD || c == 0x3CE) return c - 63;
  if (is_between(c, 0x430, 0x44F)) return c - 32;
  if (is_between(c, 0x450, 0x45F)) return c - 80;
  if (c == 0x4CF) return 0x4C0;
  if (is_between(c, 0x561, 0x586)) return c - 48;
  if (is_between(c, 0xFF41, 0xFF5A) || is_between(c, 0x24D0, 0x24E9)) return c - (c > 0xFF00 ? 32 : 26);
  if (is_between(c, 0x2170, 0x217F)) return c - 16;
  if (is_between(c, 0x10428, 0x1044F)) return c - 40;
  return c;
}

uint32_t to_lower(uint32_t c) {
  if (is_between(c, 'A', 'Z')) return c + 32;
  if (c < 0x80) return c;
  if (is_between(c, 0xC0, 0xDE) && c != 0xD7) return c + 32;
  if (c == 0x178) return 0xFF;
  const int parity = alternating(c);
  if (parity >= 0) return (c & 1) == static_cast<uint32_t>(parity) ? c + 1 : c;
  if (c == 0x386) return 0x3AC;
  if (is_between(c, 0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (c == 0x38E || c == 0x38F) return c + 63;
  if (is_between(c, 0x391, 0x3AB) && c != 0x3A2) return c + 32;
  if (is_between(c, 0x410, 0x42F)) return c + 32;
  if (is_between(c, 0x400, 0x40F)) return c + 80;
  if (c == 0x4C0) return 0x4CF;
  if (is_between(c, 0x531, 0x556)) return c + 48;
  if (is_between(c, 0xFF21, 0xFF3A) || is_between(c, 0x24B6, 0x24CF)) return c + (c > 0xFF00 ? 32 : 26);
  if (is_between(c, 0x2160, 0x216F)) return c + 16;
  if (is_between(c, 0x10400, 0x10427)) return c + 40;
  return c;
}

bool is_alpha(uint32_t c) {
  if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
  if (c == 0xAA || c == 0xB5 || c == 0xBA) return true;
  if (c < 0xC0 || c == 0xD7 || c == 0xF7) return false;
  return c < 0x2C2 || is_between(c, 0x370, 0x1FFF) || is_between(c, 0x2C00, 0x2DFF) || is_between(c, 0x3041, 0xA4CF) ||
         is_between(c, 0xA500, 0xD7FF) || is_between(c, 0xF900, 0xFDFF) || is_between(c, 0xFF21, 0xFFDC) ||
         is_between(c, 0x10000, 0x1CFFF) || is_between(c, 0x20000, 0x3FFFF);
}

}  // namespace loci::jinja
