#include "server/tools/literal.h"

#include <charconv>
#include <cmath>

#include "engine/text/unicode.h"
#include "server/tools/cursor.h"
#include "server/tools/json_scanner.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '+' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

class LiteralParser {
 public:
  LiteralParser(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  bool value(Json& out) {
    if (++depth_ > kMaxDepth) return false;
    const bool ok = any_value(out);
    --depth_;
    return ok;
  }
  bool at_end() {
    skip();
    return pos_ == text_.size();
  }
  // Consumes white space and `byte` when it follows.
  bool next_is(char byte) {
    skip();
    if (pos_ == text_.size() || text_[pos_] != byte) return false;
    ++pos_;
    return true;
  }
  bool call(std::pair<std::string, Json>& out) {
    skip();
    out.first = word();
    out.second = Json::object();
    if (out.first.empty() || !next_is('(')) return false;
    if (next_is(')')) return true;
    while (true) {
      skip();
      const std::string key = word();
      if (key.empty() || !next_is('=') || !value(out.second[key])) return false;
      if (next_is(')')) return true;
      if (!next_is(',')) return false;
      if (next_is(')')) return true;
    }
  }

 private:
  void skip() {
    while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
  }
  bool starts_with(std::string_view what) const { return text_.substr(pos_, what.size()) == what; }
  std::string word() {
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_word_byte(text_[pos_])) ++pos_;
    return std::string(text_.substr(begin, pos_ - begin));
  }

  bool any_value(Json& out) {
    skip();
    if (pos_ == text_.size()) return false;
    if (!quote_.empty() && starts_with(quote_)) return quoted(out);
    switch (text_[pos_]) {
      case '"':
      case '\'':
        return string(out);
      case '[':
        ++pos_;
        return list(out, ']');
      case '(':
        ++pos_;
        return list(out, ')');
      case '{':
        ++pos_;
        return dict(out);
      default:
        return scalar(out);
    }
  }

  bool quoted(Json& out) {
    pos_ += quote_.size();
    const size_t end = text_.find(quote_, pos_);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(pos_, end - pos_));
    pos_ = end + quote_.size();
    return true;
  }

  bool hex(int n_digits, uint32_t& value) {
    const std::string_view digits = text_.substr(pos_, static_cast<size_t>(n_digits));
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != static_cast<size_t>(n_digits) || result.ptr != digits.data() + digits.size()) return false;
    pos_ += digits.size();
    return true;
  }

  bool escape(std::string& out) {
    if (pos_ == text_.size()) return false;
    const char byte = text_[pos_++];
    constexpr std::string_view kFrom = "nrtbf0\\'\"/", kTo("\n\r\t\b\f\0\\'\"/", 10);
    if (const size_t i = kFrom.find(byte); i != std::string_view::npos) {
      out += kTo[i];
      return true;
    }
    uint32_t cp = 0;
    switch (byte) {
      case '\n':
        return true;
      case 'x':
        if (!hex(2, cp)) return false;
        break;
      case 'U':
        if (!hex(8, cp)) return false;
        break;
      case 'u':
        if (!hex(4, cp)) return false;
        if (cp >= 0xD800 && cp < 0xDC00 && starts_with("\\u")) {
          const size_t before = pos_;
          uint32_t low = 0;
          pos_ += 2;
          if (hex(4, low) && low >= 0xDC00 && low < 0xE000) {
            cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
          } else {
            pos_ = before;
          }
        }
        break;
      default:
        out += '\\';
        out += byte;
        return true;
    }
    const bool is_character = cp < 0xD800 || (cp >= 0xE000 && cp < 0x110000);
    unicode::append(out, is_character ? cp : unicode::kReplacement);
    return true;
  }

  bool string(Json& out) {
    const char quote = text_[pos_++];
    std::string text;
    while (pos_ < text_.size()) {
      const char byte = text_[pos_++];
      if (byte == quote) {
        out = std::move(text);
        return true;
      }
      if (byte != '\\') {
        text += byte;
      } else if (!escape(text)) {
        return false;
      }
    }
    return false;
  }

  bool list(Json& out, char close) {
    out = Json::array();
    while (!next_is(close)) {
      out.push_back(nullptr);
      if (!value(out.back())) return false;
      if (next_is(close)) return true;
      if (!next_is(',')) return false;
    }
    return true;
  }

  bool dict(Json& out) {
    out = Json::object();
    while (!next_is('}')) {
      skip();
      Json key;
      const bool is_quoted = pos_ < text_.size() &&
                             (text_[pos_] == '"' || text_[pos_] == '\'' || (!quote_.empty() && starts_with(quote_)));
      if (is_quoted) {
        if (!value(key)) return false;
      } else {
        key = word();
        if (key.get_ref<const std::string&>().empty()) return false;
      }
      if (!next_is(':') || !value(out[key.get_ref<const std::string&>()])) return false;
      if (next_is('}')) return true;
      if (!next_is(',')) return false;
    }
    return true;
  }

  bool scalar(Json& out) {
    const std::string text = word();
    if (text == "true" || text == "True" || text == "false" || text == "False") {
      out = text.back() == 'e' && (text[0] == 't' || text[0] == 'T');
      return true;
    }
    if (text == "null" || text == "None") {
      out = nullptr;
      return true;
    }
    int64_t whole = 0;
    const auto as_whole = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (!text.empty() && as_whole.ec == std::errc() && as_whole.ptr == text.data() + text.size()) {
      out = whole;
      return true;
    }
    double number = 0;
    const auto as_number = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || as_number.ec != std::errc() || as_number.ptr != text.data() + text.size()) return false;
    out = number;
    return std::isfinite(number);
  }

  std::string_view text_, quote_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<Json> parse_literal(std::string_view text, std::string_view quote) {
  LiteralParser parser(text, quote);
  Json out;
  if (!parser.value(out) || !parser.at_end()) return std::nullopt;
  return out;
}

std::optional<std::vector<std::pair<std::string, Json>>> parse_python_calls(std::string_view text) {
  LiteralParser parser(text, {});
  const bool in_brackets = parser.next_is('[');
  std::vector<std::pair<std::string, Json>> calls;
  do {
    calls.emplace_back();
    if (!parser.call(calls.back())) return std::nullopt;
  } while (parser.next_is(','));
  if (in_brackets && !parser.next_is(']')) return std::nullopt;
  if (!parser.at_end()) return std::nullopt;
  return calls;
}

std::optional<std::string> json_text_of_value(std::string_view text) {
  text = trimmed(text);
  // As the member of an object, since the scanner reads those.
  const std::string wrapped = "{\"v\":" + std::string(text) + "}";
  JsonScanner scanner;
  JsonScanner::State state = JsonScanner::State::kMore;
  std::string scanned;
  size_t n_read = 0;
  while (n_read < wrapped.size() && state == JsonScanner::State::kMore) {
    state = scanner.push(wrapped[n_read++], scanned);
  }
  if (state == JsonScanner::State::kDone && n_read == wrapped.size()) {
    std::string value = scanned.substr(5, scanned.size() - 6);
    if (Json::accept(value)) return value;  // it is no value when more members came
  }
  if (const std::optional<Json> literal = parse_literal(text); literal && !text.empty()) {
    return literal->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return std::nullopt;
}

std::string json_string(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace loci::server
