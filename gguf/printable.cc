#include "gguf/printable.h"

#include <cstdint>

namespace loci::gguf {
namespace {

constexpr char kHex[] = "0123456789abcdef";

// Length of the well-formed, printable UTF-8 character at text[pos], or 0 (Unicode 15, table 3-7: no overlong forms,
// no surrogates, nothing above U+10FFFF; C0 and C1 controls and DEL are not printable).
size_t printable_length(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return pos + i < text.size() ? static_cast<uint8_t>(text[pos + i]) : 0; };
  const auto in = [&](size_t i, int low, int high) { return byte(i) >= low && byte(i) <= high; };
  const uint8_t lead = byte(0);
  if (lead >= 0x20 && lead < 0x7f) return 1;
  if (lead == 0xc2) return in(1, 0xa0, 0xbf) ? 2 : 0;
  if (lead >= 0xc3 && lead <= 0xdf) return in(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const int low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
    return in(1, low, high) && in(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const int low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
    return in(1, low, high) && in(2, 0x80, 0xbf) && in(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t pos = 0;
  while (pos < text.size() && pos < max_bytes) {
    const size_t length = printable_length(text, pos);
    const char c = text[pos];
    if (c == '\\') {
      out += "\\\\";
    } else if (length > 0) {
      out.append(text, pos, length);
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else {
      out += "\\x";
      out += kHex[static_cast<uint8_t>(c) >> 4];
      out += kHex[static_cast<uint8_t>(c) & 15];
    }
    pos += length > 0 ? length : 1;
  }
  if (pos < text.size()) out += "...";
  return out;
}

bool is_printable(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = printable_length(text, pos);
    if (length == 0) return false;
    pos += length;
  }
  return true;
}

}  // namespace loci::gguf
