// Pattern: the small regular-expression dialect in which pre-tokenizers are published, matched in linear time.
//
//   alternative | alternative | ...        the first that matches wins, as in the published files
//   item        one character class, literal character or (?i:a|b|c) group, each with ? * + {n} {n,m}; (?!\S); $
//   class       [...] with ranges, ^, \s, \p{L}, \p{Lu}, ...; also \s, \S, \p{..}, \xHH.., \r, \n, \t outside brackets
//
// Every repeated item is one character wide, so that backtracking is arithmetic on positions: no recursion, no
// stack growth. A pattern may backtrack over what it has scanned, but in the rules of pre_tokenizer.cc what is
// scanned is also consumed by some alternative, up to a constant factor; "X+$" alone would not be, and is therefore
// answered from the length of the trailing run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loci {

// A character of the text to be split: code point, category and UTF-8 length in one word.
class Char {
 public:
  Char(uint32_t cp, uint8_t category, uint8_t bytes) : bits_(cp | uint32_t{category} << 21 | uint32_t{bytes} << 26) {}
  uint32_t cp() const { return bits_ & 0x1FFFFF; }
  uint32_t category() const { return bits_ >> 21 & 31; }
  uint32_t bytes() const { return bits_ >> 26; }

 private:
  uint32_t bits_;
};

class CharClass {
 public:
  void add_categories(uint32_t mask) { categories_ |= mask; }
  void add_range(uint32_t first, uint32_t last) { ranges_.emplace_back(first, last); }
  void add_whitespace();
  void negate() { negated_ = true; }
  void finish();  // after the last add: fills the ASCII table

  bool matches(Char c) const {
    const uint32_t cp = c.cp();
    return cp < 128 ? (ascii_[cp >> 6] >> (cp & 63) & 1) != 0 : lookup(cp, c.category());
  }
  uint64_t ascii(int half) const { return ascii_[half]; }

 private:
  bool lookup(uint32_t cp, uint32_t category) const;
  uint32_t categories_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;  // inclusive
  bool negated_ = false;
  uint64_t ascii_[2] = {0, 0};
};

class Pattern {
 public:
  // Patterns are our own constants: a syntax error is a broken invariant.
  explicit Pattern(std::string_view source);

  // Cuts text[begin, end) into matches and the stretches between them; appends the end index of every piece.
  // Look-ahead and $ see the end of the range as the end of the text.
  void split(const std::vector<Char>& text, size_t begin, size_t end, std::vector<size_t>& ends) const;

 private:
  friend class PatternParser;
  enum class Kind { kClass, kLiterals, kNotFollowedBy, kEnd };
  struct Item {
    Kind kind = Kind::kClass;
    CharClass chars;
    std::vector<std::string> literals;  // lower-case ASCII, matched without case
    size_t min = 1, max = 1;
  };
  struct Alternative {
    std::vector<Item> items;
    uint64_t first[2] = {0, 0};  // ASCII characters that can start a match
    bool is_suffix_run = false;  // X+$
  };
  static size_t match(const Alternative& alternative, const Char* text, size_t pos, size_t end);

  std::vector<Alternative> alternatives_;
};

}  // namespace loci
