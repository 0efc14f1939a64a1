#include "engine/constraint/gbnf.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/unicode.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr int kMaxParentheses = 100;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Grammar parse() {
    skip_space(true);
    if (at_end()) reject("a rule 'root ::= ...'", "nothing");
    while (!at_end()) parse_rule();
    const auto root = rules_.find("root");
    if (root == rules_.end() || !grammar_.is_defined(root->second)) {
      fail(ErrorKind::kInvalidInput, "grammar: expected a rule 'root', found none");
    }
    for (const auto& [rule, where] : uses_) {
      if (grammar_.is_defined(rule)) continue;
      pos_ = where;
      reject("a rule that is defined", "'" + grammar_.rule_name(rule) + "', which is not");
    }
    grammar_.set_root(root->second);
    try {
      grammar_.check();
    } catch (const Error& error) {
      fail(error.kind(), "grammar: ", error.what());
    }
    return std::move(grammar_);
  }

 private:
  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool looking_at(std::string_view what) const { return text_.substr(pos_, what.size()) == what; }

  std::string found() const {
    if (at_end()) return "the end of the text";
    const unicode::Decoded d = unicode::decode(text_, pos_);
    if (peek() == '\n') return "the end of the line";
    return "'" + std::string(text_.substr(pos_, d.length)) + "'";
  }
  [[noreturn]] void reject(const std::string& expected, const std::string& found) const {
    const std::string_view before = text_.substr(0, std::min(pos_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    fail(ErrorKind::kInvalidInput, "grammar: line ", line, ", column ", before.size() - start + 1, ": expected ",
         expected, ", found ", found);
  }
  [[noreturn]] void reject(const std::string& expected) const { reject(expected, found()); }
  // Errors of the grammar under construction, with the place.
  template <typename Make>
  Grammar::Node make(Make make_node) {
    try {
      return make_node();
    } catch (const Error& error) {
      reject("a smaller grammar", error.what());
    }
  }

  void skip_space(bool newlines) {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++pos_;
      } else {
        return;
      }
    }
  }

  std::string parse_name() {
    const size_t begin = pos_;
    while (is_name_char(peek())) ++pos_;
    if (pos_ == begin) reject("a rule's name");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  Grammar::Rule rule(const std::string& name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    return rules_[name] = grammar_.add_rule(name);
  }

  void parse_rule() {
    const size_t begin = pos_;
    const std::string name = parse_name();
    skip_space(false);
    if (!looking_at("::=")) reject("::= behind the rule's name");
    pos_ += 3;
    skip_space(true);
    const Grammar::Rule id = rule(name);
    if (grammar_.is_defined(id)) {
      pos_ = begin;
      reject("each rule once", "'" + name + "' again");
    }
    grammar_.define(id, parse_choice(0));
    if (!at_end() && peek() != '\n' && peek() != '\r') reject("the end of the rule");
    skip_space(true);
  }

  Grammar::Node parse_choice(int depth) {
    std::vector<Grammar::Node> options{parse_sequence(depth)};
    while (peek() == '|') {
      ++pos_;
      skip_space(true);
      options.push_back(parse_sequence(depth));
    }
    return make([&] { return grammar_.choice(std::move(options)); });
  }

  Grammar::Node parse_sequence(int depth) {
    std::vector<Grammar::Node> items;
    while (!at_end()) {
      const char c = peek();
      Grammar::Node item;
      if (c == '"') {
        item = parse_literal();
      } else if (c == '[') {
        item = parse_class();
      } else if (c == '.') {
        ++pos_;
        item = make([&] { return grammar_.chars({{1, kMaxCodePoint}}); });
      } else if (is_name_char(c)) {
        const size_t begin = pos_;
        const Grammar::Rule used = rule(parse_name());
        uses_.emplace_back(used, begin);
        item = make([&] { return grammar_.reference(used); });
      } else if (c == '(') {
        if (depth >= kMaxParentheses) {
          reject("at most " + std::to_string(kMaxParentheses) + " parentheses inside each other", "more");
        }
        ++pos_;
        skip_space(true);
        item = parse_choice(depth + 1);
        if (peek() != ')') reject("')'");
        ++pos_;
      } else if (c == '<' || c == '!') {
        reject("text, a class, a rule or '('", "a reference to a token, which is not supported");
      } else {
        break;
      }
      skip_space(depth > 0);
      items.push_back(parse_repeats(item, depth));
    }
    if (items.empty()) {
      // GBNF has empty alternatives; a rule or parenthesis of nothing at all is a slip.
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') reject("something to repeat");
      if (!at_end() && c != '|' && c != ')' && c != '\n' && c != '\r') reject("text, a class, a rule or '('");
    }
    return make([&] { return grammar_.sequence(std::move(items)); });
  }

  Grammar::Node parse_repeats(Grammar::Node item, int depth) {
    while (true) {
      int64_t min = 0, max = -1;
      switch (peek()) {
        case '*':
          ++pos_;
          break;
        case '+':
          ++pos_, min = 1;
          break;
        case '?':
          ++pos_, max = 1;
          break;
        case '{':
          parse_counts(min, max);
          break;
        default:
          return item;
      }
      skip_space(depth > 0);
      item = make([&] { return grammar_.repeat(item, min, max); });
    }
  }

  int64_t parse_number() {
    const size_t begin = pos_;
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<int64_t>(value * 10 + (peek() - '0'), int64_t{1} << 40);
      ++pos_;
    }
    if (pos_ == begin) reject("a number");
    if (value > Grammar::kMaxRepeat) {
      const std::string found(text_.substr(begin, std::min<size_t>(pos_ - begin, 20)));
      pos_ = begin;
      reject("at most " + std::to_string(Grammar::kMaxRepeat) + " repetitions", found);
    }
    return value;
  }

  void parse_counts(int64_t& min, int64_t& max) {
    const size_t begin = pos_++;
    skip_space(false);
    min = max = 0;
    if (peek() != ',') max = min = parse_number();
    skip_space(false);
    if (peek() == ',') {
      ++pos_;
      skip_space(false);
      max = peek() == '}' ? -1 : parse_number();
      skip_space(false);
    }
    if (peek() != '}') reject("'}'");
    ++pos_;
    if (max >= 0 && max < min) {
      pos_ = begin;
      reject("a count range {m,n} with m <= n", str("{", min, ",", max, "}"));
    }
  }

  uint32_t parse_hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const int digit = hex_value(peek());
      if (digit < 0) reject(std::to_string(digits) + " hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  // One character, escaped or not.
  uint32_t parse_char() {
    const size_t begin = pos_;
    uint32_t cp = 0;
    if (peek() != '\\') {
      const unicode::Decoded d = unicode::decode(text_, pos_);
      if (!d.valid) reject("UTF-8 text", "other bytes");
      pos_ += d.length;
      cp = d.cp;
    } else {
      ++pos_;
      const char c = peek();
      ++pos_;
      switch (c) {
        case 'n':
          return '\n';
        case 'r':
          return '\r';
        case 't':
          return '\t';
        case '\\':
        case '"':
        case '[':
        case ']':
        case '^':
        case '-':
          return static_cast<uint32_t>(c);
        case 'x':
          cp = parse_hex(2);
          break;
        case 'u':
          cp = parse_hex(4);
          break;
        case 'U':
          cp = parse_hex(8);
          break;
        default:
          pos_ = begin, reject(R"(an escape: \n \r \t \\ \" \[ \] \^ \- \xHH \uHHHH \UHHHHHHHH)");
      }
    }
    if (cp > kMaxCodePoint || (cp >= 0xD800 && cp <= 0xDFFF)) {
      pos_ = begin;
      reject("a Unicode character", "a number that stands for none");
    }
    return cp;
  }

  Grammar::Node parse_literal() {
    const size_t begin = pos_++;
    std::string value;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') {
        pos_ = begin;
        reject("a closing '\"' on the same line", "none");
      }
      const size_t at = pos_;
      const uint32_t cp = parse_char();
      if (cp == 0) {
        pos_ = at;
        reject("a character that can be produced", "U+0000");
      }
      unicode::append(value, cp);
    }
    ++pos_;
    return make([&] { return grammar_.text(value); });
  }

  Grammar::Node parse_class() {
    const size_t begin = pos_++;
    const bool negated = peek() == '^';
    if (negated) ++pos_;
    CharSet set;
    while (peek() != ']') {
      if (at_end() || peek() == '\n') {
        pos_ = begin;
        reject("a closing ']' on the same line", "none");
      }
      const size_t range_begin = pos_;
      CharRange range{parse_char(), 0};
      range.high = range.low;
      if (peek() == '-' && peek(1) != ']' && pos_ + 1 < text_.size()) {
        ++pos_;
        range.high = parse_char();
        if (range.high < range.low) {
          const std::string found(text_.substr(range_begin, pos_ - range_begin));
          pos_ = range_begin;
          reject("a range from a lower to a higher character", "'" + found + "'");
        }
      }
      set.push_back(range);
    }
    ++pos_;
    return make([&] { return grammar_.chars(negated ? complement(set) : set); });
  }

  std::string_view text_;
  size_t pos_ = 0;
  Grammar grammar_;
  std::unordered_map<std::string, Grammar::Rule> rules_;
  std::vector<std::pair<Grammar::Rule, size_t>> uses_;  // and where
};

}  // namespace

Grammar parse_gbnf(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > Grammar::kMaxTextBytes) {
    fail(ErrorKind::kInvalidInput, "grammar: expected at most ", Grammar::kMaxTextBytes, " bytes, found ", text.size());
  }
  return Parser(text).parse();
}

}  // namespace loci
