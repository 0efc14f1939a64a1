// Code points in UTF-8 text and the few of their properties that Python's string methods need. An invalid byte counts
// as one code point of its own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace loci::jinja {

// Code point at text[pos] (0xDC00 + byte for an invalid byte) and its length in bytes. REQUIRES: pos < text.size().
struct CodePoint {
  uint32_t value;
  size_t size;
};
CodePoint decode_at(std::string_view text, size_t pos);
// Start of the code point that ends before `end`. REQUIRES: end > 0.
size_t previous(std::string_view text, size_t end);
size_t count_code_points(std::string_view text);
// Byte offset of the n-th code point; text.size() when there are fewer.
size_t offset_of(std::string_view text, size_t n);
void append_utf8(std::string& out, uint32_t code_point);

bool is_space(uint32_t c);       // str.isspace()
bool is_line_break(uint32_t c);  // str.splitlines()
bool is_printable(uint32_t c);   // str.isprintable(), by blocks
bool is_alpha(uint32_t c);       // letters of the alphabets with case mapping below, CJK and most other scripts
// Simple case mapping: Latin, Greek, Cyrillic, Armenian, full-width forms; others map to themselves.
uint32_t to_upper(uint32_t c);
uint32_t to_lower(uint32_t c);

}  // namespace loci::jinja
