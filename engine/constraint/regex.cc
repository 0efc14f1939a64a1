#include "engine/constraint/regex.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/unicode.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr int kMaxGroups = 50;  // inside each other
constexpr int64_t kMaxPatternBytes = 1 << 14;

const CharSet kDigits{{'0', '9'}};
const CharSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace{{'\t', '\r'}, {' ', ' '}};
const CharSet kAscii{{1, 0x7F}};
const CharSet kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// Characters that a JSON string escapes, and how.
constexpr CharRange kControls{1, 0x1F};
struct ShortEscape {
  char character;
  const char* spelling;
};
constexpr ShortEscape kShortEscapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                                         {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};

bool contains(const CharSet& set, uint32_t cp) {
  return std::any_of(set.begin(), set.end(), [cp](const CharRange& r) { return r.low <= cp && cp <= r.high; });
}

class Parser {
 public:
  Parser(Grammar& grammar, std::string_view pattern, RegexUse use) : grammar_(grammar), text_(pattern), use_(use) {}

  Grammar::Node parse() {
    const Grammar::Node node = parse_choice(0);
    if (!at_end()) reject("the end of the pattern");
    return node;
  }

 private:
  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool looking_at(std::string_view what) const { return text_.substr(pos_, what.size()) == what; }

  [[noreturn]] void reject(const std::string& expected, std::string found = "") const {
    if (found.empty()) {
      found = at_end() ? "the end" : "'" + std::string(text_.substr(pos_, unicode::decode(text_, pos_).length)) + "'";
    }
    fail(ErrorKind::kInvalidInput, "position ", pos_, ": expected ", expected, ", found ", found);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::kUnsupported, "position ", pos_, ": ", what, " is not supported");
  }

  Grammar::Node anything() {
    const CharSet all{{1, kMaxCodePoint}};
    return grammar_.repeat(chars(all), 0, -1);
  }
  Grammar::Node chars(const CharSet& set) {
    return use_ == RegexUse::kJsonString ? json_chars(grammar_, set) : grammar_.chars(set);
  }

  Grammar::Node parse_choice(int depth) {
    std::vector<Grammar::Node> options{parse_sequence(depth)};
    while (peek() == '|' && !at_end()) {
      ++pos_;
      options.push_back(parse_sequence(depth));
    }
    return grammar_.choice(std::move(options));
  }

  Grammar::Node parse_sequence(int depth) {
    // Anchors stand at the ends of an alternative of the whole pattern; a search goes on over what is not anchored.
    bool from_start = false, to_end = false;
    std::vector<Grammar::Node> items;
    while (!at_end() && peek() != '|' && peek() != ')') {
      if (peek() == '^') {
        if (depth > 0 || !items.empty()) refuse("'^' inside a pattern");
        from_start = true;
        ++pos_;
        if (is_quantifier()) reject("something to repeat");
        continue;
      }
      if (peek() == '$') {
        ++pos_;
        if (depth > 0 || (!at_end() && peek() != '|')) {
          --pos_;
          refuse("'$' inside a pattern");
        }
        to_end = true;
        break;
      }
      const Grammar::Node item = parse_atom(depth);
      items.push_back(parse_quantifier(item));
    }
    if (use_ == RegexUse::kJsonString && depth == 0) {
      if (!from_start) items.insert(items.begin(), anything());
      if (!to_end) items.push_back(anything());
    }
    return grammar_.sequence(std::move(items));
  }

  bool is_quantifier() const {
    return !at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || (peek() == '{' && counts_follow()));
  }
  bool counts_follow() const {
    size_t i = 1;
    while (peek(i) >= '0' && peek(i) <= '9') ++i;
    if (i == 1) return false;
    if (peek(i) == ',') {
      ++i;
      while (peek(i) >= '0' && peek(i) <= '9') ++i;
    }
    return peek(i) == '}';
  }

  int64_t parse_number() {
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++pos_) value = std::min<int64_t>(value * 10 + (peek() - '0'), 1 << 30);
    if (value > Grammar::kMaxRepeat) {
      reject("at most " + std::to_string(Grammar::kMaxRepeat) + " repetitions", "more");
    }
    return value;
  }

  Grammar::Node parse_quantifier(Grammar::Node item) {
    if (!is_quantifier()) return item;
    int64_t min = 0, max = -1;
    switch (text_[pos_++]) {
      case '*':
        break;
      case '+':
        min = 1;
        break;
      case '?':
        max = 1;
        break;
      default:
        min = max = parse_number();
        if (peek() == ',') {
          ++pos_;
          max = peek() == '}' ? -1 : parse_number();
        }
        ++pos_;
        if (max >= 0 && max < min) reject("a count range {m,n} with m <= n", str("{", min, ",", max, "}"));
    }
    if (peek() == '?') {
      ++pos_;  // lazy: the same texts
    } else if (peek() == '+') {
      refuse("a possessive quantifier");
    }
    if (is_quantifier()) reject("one quantifier", "two");
    return grammar_.repeat(item, min, max);
  }

  Grammar::Node parse_atom(int depth) {
    const char c = peek();
    if (c == '(') return parse_group(depth);
    if (c == '[') return chars(parse_class());
    if (c == '.') {
      ++pos_;
      return chars(complement(kLineEnds));
    }
    if (is_quantifier()) reject("something to repeat");
    if (c == '\\') {
      if (const std::optional<CharSet> set = parse_set_escape()) return chars(*set);
    }
    const uint32_t cp = parse_char(false);
    return chars({{cp, cp}});
  }

  Grammar::Node parse_group(int depth) {
    if (depth >= kMaxGroups) reject("at most " + std::to_string(kMaxGroups) + " groups inside each other", "more");
    if (looking_at("(?:")) {
      pos_ += 3;
    } else if (looking_at("(?=") || looking_at("(?!") || looking_at("(?<=") || looking_at("(?<!")) {
      refuse("look-around");
    } else if (looking_at("(?<") || looking_at("(?P<")) {
      const size_t close = text_.find('>', pos_);
      if (close == std::string_view::npos) reject("a group name in <...>", "none");
      pos_ = close + 1;
    } else if (looking_at("(?")) {
      refuse("a group of this kind");
    } else {
      ++pos_;
    }
    const Grammar::Node node = parse_choice(depth + 1);
    if (peek() != ')' || at_end()) reject("')'");
    ++pos_;
    return node;
  }

  // \d \w \s and their opposites, which stay in ASCII: what lies beyond differs from one dialect to the next.
  std::optional<CharSet> parse_set_escape() {
    std::optional<CharSet> set;
    switch (peek(1)) {
      case 'd':
        set = kDigits;
        break;
      case 'w':
        set = kWord;
        break;
      case 's':
        set = kSpace;
        break;
      case 'D':
        set = intersection(kAscii, complement(kDigits));
        break;
      case 'W':
        set = intersection(kAscii, complement(kWord));
        break;
      case 'S':
        set = intersection(kAscii, complement({{1, ' '}}));
        break;
      default:
        return std::nullopt;
    }
    pos_ += 2;
    return set;
  }

  uint32_t parse_hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) reject(std::to_string(digits) + " hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  uint32_t parse_char(bool in_class) {
    if (at_end()) reject("a character");
    uint32_t cp = 0;
    if (peek() != '\\') {
      const unicode::Decoded d = unicode::decode(text_, pos_);
      if (!d.valid) reject("UTF-8 text", "other bytes");
      pos_ += d.length;
      return d.cp;
    }
    ++pos_;
    if (at_end()) reject("a character behind '\\'");
    const char c = text_[pos_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'x':
        cp = parse_hex(2);
        break;
      case 'u':
        cp = parse_hex(4);
        break;
      default:
        if (c == 'b' && in_class) return '\b';
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
          pos_ -= 2;
          if (c >= '1' && c <= '9') refuse("a back reference");
          if (c == 'b' || c == 'B') refuse("a word boundary");
          refuse(str("the escape \\", c));
        }
        if (static_cast<unsigned char>(c) >= 0x80) {
          --pos_;
          return parse_char(in_class);
        }
        return static_cast<uint32_t>(c);
    }
    if (cp == 0 || (cp >= 0xD800 && cp <= 0xDFFF)) reject("an escape of one character that text can hold", "another");
    return cp;
  }

  CharSet parse_class() {
    const size_t begin = pos_++;
    const bool negated = peek() == '^' && !at_end();
    if (negated) ++pos_;
    CharSet set;
    while (at_end() || peek() != ']') {
      if (at_end()) {
        pos_ = begin;
        reject("a closing ']'", "none");
      }
      if (peek() == '\\') {
        if (const std::optional<CharSet> escape = parse_set_escape()) {
          // Negated, an opposite takes away all that some dialect counts in.
          const char letter = text_[pos_ - 1];
          if (negated && (letter == 'D' || letter == 'W' || letter == 'S')) {
            pos_ -= 2;
            refuse("\\D, \\W or \\S in a negated class");
          }
          if (negated) set.push_back({0x80, kMaxCodePoint});
          set.insert(set.end(), escape->begin(), escape->end());
          continue;
        }
      }
      const size_t range_begin = pos_;
      CharRange range{parse_char(true), 0};
      range.high = range.low;
      if (peek() == '-' && pos_ + 1 < text_.size() && peek(1) != ']') {
        ++pos_;
        if (peek() == '\\' && (peek(1) == 'd' || peek(1) == 'w' || peek(1) == 's')) reject("the end of a range");
        range.high = parse_char(true);
        if (range.high < range.low) {
          const std::string found = "'" + std::string(text_.substr(range_begin, pos_ - range_begin)) + "'";
          pos_ = range_begin;
          reject("a range from a lower to a higher character", found);
        }
      }
      set.push_back(range);
    }
    ++pos_;
    return negated ? complement(set) : normalized(set);
  }

  Grammar& grammar_;
  std::string_view text_;
  RegexUse use_;
  size_t pos_ = 0;
};

}  // namespace

Grammar::Node json_chars(Grammar& grammar, const CharSet& set) {
  const CharSet wanted = normalized(set);
  const CharSet plain = intersection(wanted, complement({kControls, {'"', '"'}, {'\\', '\\'}}));
  std::vector<Grammar::Node> options;
  if (!plain.empty() || wanted.empty()) options.push_back(grammar.chars(plain));
  for (const ShortEscape& escape : kShortEscapes) {
    if (contains(wanted, static_cast<uint32_t>(escape.character))) options.push_back(grammar.text(escape.spelling));
  }
  for (uint32_t cp = kControls.low; cp <= kControls.high; ++cp) {
    const bool is_short = std::any_of(std::begin(kShortEscapes), std::end(kShortEscapes),
                                      [cp](const ShortEscape& e) { return static_cast<uint32_t>(e.character) == cp; });
    if (is_short || !contains(wanted, cp)) continue;
    char spelling[8];
    std::snprintf(spelling, sizeof spelling, "\\u%04x", static_cast<unsigned>(cp));
    options.push_back(grammar.text(spelling));
  }
  return grammar.choice(std::move(options));
}

Grammar::Node json_text(Grammar& grammar, std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const unicode::Decoded d = unicode::decode(text, pos);
    const auto escape = std::find_if(std::begin(kShortEscapes), std::end(kShortEscapes),
                                     [&](const ShortEscape& e) { return static_cast<uint32_t>(e.character) == d.cp; });
    if (escape != std::end(kShortEscapes)) {
      out += escape->spelling;
    } else if (d.cp <= kControls.high) {
      char spelling[8];
      std::snprintf(spelling, sizeof spelling, "\\u%04x", static_cast<unsigned>(d.cp));
      out += spelling;
    } else {
      unicode::append(out, d.cp);
    }
    pos += d.length;
  }
  return grammar.text(out);
}

Grammar::Node add_regex(Grammar& grammar, std::string_view pattern, RegexUse use) {
  if (static_cast<int64_t>(pattern.size()) > kMaxPatternBytes) {
    fail(ErrorKind::kInvalidInput, "expected a pattern of at most ", kMaxPatternBytes, " bytes, found ",
         pattern.size());
  }
  return Parser(grammar, pattern, use).parse();
}

}  // namespace loci
