#include "server/tools/json_scanner.h"

#include <cmath>
#include <cstdlib>

namespace loci::server {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

// A number by the grammar of RFC 8259 that a double can hold.
bool is_number(const std::string& word) {
  size_t i = word[0] == '-' ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < word.size() && is_digit(word[i])) ++i;
    return i > begin;
  };
  const bool leading_zero = i < word.size() && word[i] == '0';
  const size_t whole = i;
  if (!digits() || (leading_zero && i > whole + 1)) return false;
  if (i < word.size() && word[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
    ++i;
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == word.size() && std::isfinite(std::strtod(word.c_str(), nullptr));
}

std::string hex_escape(uint32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text += kHex[(unit >> shift) & 15];
  return text;
}

}  // namespace

void JsonScanner::put(std::string& out, const std::string& text) {
  out += text;
  if (is_key_ && depth() == 1) outer_key_ += text;
}

JsonScanner::State JsonScanner::push(char byte, std::string& out) {
  switch (expect_) {
    case Expect::kString:
    case Expect::kEscape:
    case Expect::kSurrogate:
      return in_string(byte, out);
    case Expect::kHex:
      return in_hex(byte, out);
    case Expect::kWord:
      if (is_word(byte)) {
        if (word_.size() >= 400) return State::kFailed;
        word_ += byte;
        return State::kMore;
      }
      if (!end_word(out)) return State::kFailed;
      break;  // the byte comes after the word
    default:
      break;
  }
  if (is_space(byte)) {
    in_outer_value_ = depth() > 1;
    if (started_) out += byte;
    return State::kMore;
  }
  switch (expect_) {
    case Expect::kFirstItem:
      if (byte == ']') return close(byte, out);
      [[fallthrough]];
    case Expect::kValue:
      return open(byte, out);
    case Expect::kFirstKey:
      if (byte == '}') return close(byte, out);
      [[fallthrough]];
    case Expect::kKey:
      if (byte != '"') return State::kFailed;
      is_key_ = true;
      if (depth() == 1) outer_key_.clear();
      in_outer_value_ = depth() > 1;
      out += byte;
      expect_ = Expect::kString;
      return State::kMore;
    case Expect::kColon:
      if (byte != ':') return State::kFailed;
      out += byte;
      expect_ = Expect::kValue;
      return State::kMore;
    default:  // kNext
      if (byte != ',') return close(byte, out);
      in_outer_value_ = depth() > 1;
      out += byte;
      expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
      return State::kMore;
  }
}

JsonScanner::State JsonScanner::open(char byte, std::string& out) {
  const bool is_outermost = !started_;
  started_ = true;
  in_outer_value_ = depth() >= 1;
  if (byte == '"') {
    is_key_ = false;
    out += byte;
    expect_ = Expect::kString;
    return State::kMore;
  }
  if (byte == '{' || (byte == '[' && !is_outermost)) {
    if (depth() >= kMaxDepth) return State::kFailed;
    open_ += byte;
    out += byte;
    expect_ = byte == '{' ? Expect::kFirstKey : Expect::kFirstItem;
    return State::kMore;
  }
  if (is_outermost || !is_word(byte)) return State::kFailed;
  word_.assign(1, byte);
  expect_ = Expect::kWord;
  return State::kMore;
}

JsonScanner::State JsonScanner::close(char byte, std::string& out) {
  if (byte != (open_.back() == '{' ? '}' : ']')) return State::kFailed;
  in_outer_value_ = depth() > 1;
  open_.pop_back();
  out += byte;
  expect_ = Expect::kNext;
  return open_.empty() ? State::kDone : State::kMore;
}

JsonScanner::State JsonScanner::in_string(char byte, std::string& out) {
  if (expect_ == Expect::kSurrogate) {  // right after the first half of a pair
    if (byte == '\\') {
      expect_ = Expect::kEscape;
      return State::kMore;
    }
    put(out, hex_escape(0xFFFD));
    high_surrogate_ = 0;
    expect_ = Expect::kString;
  }
  if (expect_ == Expect::kEscape) {
    expect_ = Expect::kString;
    if (byte == 'u') {
      word_.clear();
      expect_ = Expect::kHex;
      return State::kMore;
    }
    if (high_surrogate_ != 0) put(out, hex_escape(0xFFFD));
    high_surrogate_ = 0;
    constexpr std::string_view kKnown = "\"\\/bfnrt";
    if (kKnown.find(byte) != std::string_view::npos) {
      put(out, {'\\', byte});
      return State::kMore;
    }
    if (byte == '\'') {
      put(out, "'");
      return State::kMore;
    }
    put(out, "\\\\");  // no escape: a backslash that was meant as one
  }
  const auto c = static_cast<unsigned char>(byte);
  if (byte == '"') return end_string(out);
  if (byte == '\\') {
    expect_ = Expect::kEscape;
  } else if (byte == '\n') {
    put(out, "\\n");
  } else if (byte == '\t') {
    put(out, "\\t");
  } else if (byte == '\r') {
    put(out, "\\r");
  } else if (c < 0x20) {
    put(out, hex_escape(c));
  } else {
    put(out, std::string(1, byte));
  }
  return State::kMore;
}

JsonScanner::State JsonScanner::in_hex(char byte, std::string& out) {
  const bool is_hex = is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
  if (!is_hex) return State::kFailed;
  word_ += byte;
  if (word_.size() < 4) return State::kMore;
  const auto unit = static_cast<uint32_t>(std::strtoul(word_.c_str(), nullptr, 16));
  const bool is_low = unit >= 0xDC00 && unit < 0xE000;
  expect_ = Expect::kString;
  if (high_surrogate_ != 0 && is_low) {
    put(out, hex_escape(high_surrogate_) + hex_escape(unit));
    high_surrogate_ = 0;
    return State::kMore;
  }
  if (high_surrogate_ != 0) put(out, hex_escape(0xFFFD));
  high_surrogate_ = 0;
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_surrogate_ = unit;
    expect_ = Expect::kSurrogate;
  } else {
    put(out, is_low ? hex_escape(0xFFFD) : "\\u" + word_);
  }
  return State::kMore;
}

JsonScanner::State JsonScanner::end_string(std::string& out) {
  out += '"';
  if (open_.empty()) return State::kDone;
  expect_ = is_key_ ? Expect::kColon : Expect::kNext;
  if (is_key_) in_outer_value_ = depth() > 1;
  is_key_ = false;
  return State::kMore;
}

bool JsonScanner::end_word(std::string& out) {
  expect_ = Expect::kNext;
  static constexpr const char* kWords[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                              {"True", "true"}, {"False", "false"}, {"None", "null"}};
  for (const auto& [spelled, meant] : kWords) {
    if (word_ == spelled) {
      out += meant;
      return true;
    }
  }
  if (!is_number(word_)) return false;
  out += word_;
  return true;
}

}  // namespace loci::server
