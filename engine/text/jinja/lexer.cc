#include "engine/text/jinja/lexer.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {

void fail_at(int line, const std::string& cause) {
  fail(ErrorKind::kInvalidInput, "chat template line ", line, ": ", cause);
}

namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }
bool is_ascii_space(char c) { return c == ' ' || (c >= 9 && c <= 13); }

// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string normalize(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normalize(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) data();
    push(TokenKind::kEnd, "end of the template");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(const std::string& cause) const { fail_at(line_, cause); }

  bool at(std::string_view text) const { return source_.compare(pos_, text.size(), text) == 0; }
  bool at_end() const { return pos_ >= source_.size(); }

  void push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  void advance(size_t n) {
    for (size_t i = pos_; i < pos_ + n; ++i) line_ += source_[i] == '\n';
    pos_ += n;
  }
  void skip_spaces() {
    while (!at_end()) {
      const CodePoint c = decode_at(source_, pos_);
      if (!is_space(c.value)) return;
      advance(c.size);
    }
  }

  // Emits source_[begin, end) as data, cut as the tag that follows asks: '-' strips all white space, '+' none, and
  // otherwise a block or comment takes the indentation of its own line away.
  void push_data(size_t begin, size_t end, char sign, bool is_output) {
    size_t stop = end;
    if (sign == '-') {
      while (stop > begin) {
        const size_t before = previous(source_, stop);
        if (!is_space(decode_at(source_, before).value)) break;
        stop = before;
      }
      if (stop < begin) stop = begin;
    } else if (sign != '+' && !is_output) {
      size_t line_begin = end;
      while (line_begin > begin && source_[line_begin - 1] != '\n') --line_begin;
      const bool from_line_start = line_begin > begin || starts_line_;
      bool blank = true;
      for (size_t i = line_begin; i < end && blank;) {
        const CodePoint c = decode_at(source_, i);
        blank = is_space(c.value);
        i += c.size;
      }
      if (from_line_start && blank) stop = line_begin;
    }
    if (stop > begin) push(TokenKind::kData, source_.substr(begin, stop - begin));
    advance(end - pos_);
  }

  // Text up to the next tag, and the tag.
  void data() {
    const size_t begin = pos_;
    size_t tag = pos_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push(TokenKind::kData, source_.substr(begin));
        pos_ = source_.size();
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char type = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    push_data(begin, tag, sign, type == '{');
    const int tag_line = line_;
    advance(sign == '\0' ? 2 : 3);
    if (type == '#') return comment(tag_line);
    if (type == '%' && raw()) return;
    push(type == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, type == '{' ? "{{" : "{%");
    tag_body(type == '{', tag_line);
  }

  // The end of a block or comment tag at the cursor: its closing text, the newline or white space that goes with it.
  // Returns false when the cursor is not at one.
  bool close(std::string_view end, bool trims_newline) {
    const bool minus = at("-") && source_.compare(pos_ + 1, end.size(), end) == 0;
    const bool plus = trims_newline && at("+") && source_.compare(pos_ + 1, end.size(), end) == 0;
    if (!minus && !plus && !at(end)) return false;
    advance(end.size() + (minus || plus ? 1 : 0));
    starts_line_ = false;
    if (minus) {
      const size_t before = pos_;
      skip_spaces();
      starts_line_ = pos_ > before && source_[pos_ - 1] == '\n';
    } else if (!plus && trims_newline && at("\n")) {
      advance(1);
      starts_line_ = true;
    }
    return true;
  }

  void comment(int tag_line) {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) fail_at(tag_line, "missing end of comment tag");
    // The sign belongs to the closing tag, unless it opened the comment.
    const bool sign = end > pos_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance((sign ? end - 1 : end) - pos_);
    close("#}", true);
  }

  // {% raw %} ... {% endraw %}; the cursor is behind "{%" and its sign.
  bool raw() {
    size_t i = pos_;
    const auto skip = [&] {
      while (i < source_.size() && is_ascii_space(source_[i])) ++i;
    };
    const auto word = [&](std::string_view text) {
      if (source_.compare(i, text.size(), text) != 0) return false;
      i += text.size();
      return true;
    };
    skip();
    if (!word("raw")) return false;
    skip();
    const bool minus = i < source_.size() && source_[i] == '-';
    if (minus) ++i;
    if (!word("%}")) return false;
    const int tag_line = line_;
    advance(i - pos_);
    if (minus) skip_spaces();
    starts_line_ = minus && source_[pos_ - 1] == '\n';
    for (size_t tag = source_.find("{%", pos_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      i = tag + 2;
      const char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
      if (sign != '\0') ++i;
      skip();
      if (!word("endraw")) continue;
      skip();
      const size_t close_at = i;
      if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
      if (!word("%}")) continue;
      push_data(pos_, tag, sign, false);
      advance(close_at - pos_);
      close("%}", true);
      return true;
    }
    fail_at(tag_line, "missing end of raw directive");
  }

  // Tokens of one tag up to and with its end.
  void tag_body(bool is_output, int tag_line) {
    std::string open;  // brackets not yet closed: inside them "}}" and "%}" are operators
    for (;;) {
      skip_spaces();
      if (at_end()) fail_at(tag_line, is_output ? "'{{' is never closed" : "'{%' is never closed");
      if (open.empty()) {
        const int end_line = line_;
        if (close(is_output ? "}}" : "%}", !is_output)) {
          push(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, is_output ? "}}" : "%}");
          tokens_.back().line = end_line;
          return;
        }
      }
      const char c = source_[pos_];
      if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        size_t end = pos_;
        while (end < source_.size() && is_name_part(source_[end])) ++end;
        push(TokenKind::kName, source_.substr(pos_, end - pos_));
        advance(end - pos_);
      } else if (c == '\'' || c == '"') {
        string();
      } else {
        symbol(open);
      }
    }
  }

  void symbol(std::string& open) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view two : kTwo) {
      if (at(two)) {
        push(TokenKind::kOperator, std::string(two));
        return advance(2);
      }
    }
    const char c = source_[pos_];
    if (kOne.find(c) == std::string_view::npos) {
      fail_here(str("unexpected character '", source_.substr(pos_, decode_at(source_, pos_).size), "'"));
    }
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_here(str("unexpected '", c, "'"));
      if (open.back() != c) fail_here(str("unexpected '", c, "', expected '", open.back(), "'"));
      open.pop_back();
    }
    push(TokenKind::kOperator, std::string(1, c));
    advance(1);
  }

  void number() {
    size_t i = pos_;
    std::string digits;
    const auto take = [&](auto accept) {
      while (i < source_.size() &&
             (accept(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && accept(source_[i + 1])))) {
        if (source_[i] != '_') digits += source_[i];
        ++i;
      }
    };
    int base = 10;
    if (source_[i] == '0' && i + 1 < source_.size()) {
      const char kind = static_cast<char>(source_[i + 1] | 32);
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    }
    bool is_float = false;
    if (base != 10) {
      i += 2;
      take([&](char c) {
        const char lower = static_cast<char>(c | 32);
        const int value = is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
        return value < base;
      });
    } else {
      take(is_digit);
      if (i + 1 < source_.size() && source_[i] == '.' && is_digit(source_[i + 1])) {
        is_float = true;
        digits += source_[i++];
        take(is_digit);
      }
      if (i < source_.size() && (source_[i] | 32) == 'e') {
        size_t exponent = i + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          is_float = true;
          digits += source_.substr(i, exponent - i);
          i = exponent;
          take(is_digit);
        }
      }
    }
    Token token;
    token.line = line_;
    token.text = source_.substr(pos_, i - pos_);
    token.kind = is_float ? TokenKind::kFloat : TokenKind::kInteger;
    const char *begin = digits.data(), *end = begin + digits.size();
    if (is_float) {
      std::from_chars(begin, end, token.number);  // out of range leaves inf or 0 as Python does
    } else {
      const auto result = std::from_chars(begin, end, token.integer, base);
      if (result.ec != std::errc() || digits.empty()) {
        fail_here(str("expected an integer below 2^63, found ", token.text.substr(0, 40)));
      }
    }
    tokens_.push_back(std::move(token));
    advance(i - pos_);
  }

  void string() {
    const char quote = source_[pos_];
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("a string is never closed");
    push(TokenKind::kString, unescape(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1)));
    advance(end + 1 - pos_);
  }

  // Python's escapes in a string literal; an unknown one stays as it is.
  std::string unescape(std::string_view s) const {
    std::string out;
    out.reserve(s.size());
    std::optional<uint32_t> high;  // first half of a UTF-16 pair written as two \u escapes
    const auto put = [&](uint32_t c) {
      if (high && c >= 0xDC00 && c < 0xE000) {
        append_utf8(out, 0x10000 + ((*high - 0xD800) << 10) + (c - 0xDC00));
        high.reset();
      } else if (c >= 0xD800 && c < 0xDC00) {
        high = c;
      } else {
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail_here("a string holds an escape that is no character");
        append_utf8(out, c);
      }
    };
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\' || i + 1 == s.size()) {
        if (high) break;
        out += s[i];
        continue;
      }
      const char c = s[++i];
      const auto hex = [&](size_t digits) {
        uint32_t value = 0;
        const char *begin = s.data() + i + 1, *end = begin + std::min(digits, s.size() - i - 1);
        const auto result = std::from_chars(begin, end, value, 16);
        if (result.ptr != begin + digits) fail_here(str("truncated \\", c, " escape in a string"));
        i += digits;
        put(value);
      };
      if (high && c != 'u') break;
      switch (c) {
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          out += c;
          break;
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case 'a':
          out += '\a';
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'v':
          out += '\v';
          break;
        case 'x':
          hex(2);
          break;
        case 'u':
          hex(4);
          break;
        case 'U':
          hex(8);
          break;
        default: {
          if (c < '0' || c > '7') {
            out += '\\';
            out += c;
            break;
          }
          uint32_t value = 0;
          size_t n = 0;
          for (; n < 3 && i + n < s.size() && s[i + n] >= '0' && s[i + n] <= '7'; ++n) {
            value = value * 8 + static_cast<uint32_t>(s[i + n] - '0');
          }
          i += n - 1;
          put(value);
        }
      }
    }
    if (high) fail_here("a string holds half of a UTF-16 pair");
    return out;
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool starts_line_ = true;  // the cursor stands at the start of a line (or behind a newline that a tag took)
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) {
  if (source.size() > kMaxSourceBytes) {
    fail(ErrorKind::kInvalidInput, "chat template: expected at most ", kMaxSourceBytes, " bytes, found ",
         source.size());
  }
  return Lexer(source).run();
}

}  // namespace loci::jinja
