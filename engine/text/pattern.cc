#include "engine/text/pattern.h"

#include <algorithm>
#include <limits>

#include "engine/text/unicode.h"
#include "kernels/check.h"

namespace loci {
namespace {

constexpr size_t kNoMatch = std::numeric_limits<size_t>::max();
constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
constexpr size_t kMaxItems = 8;

uint32_t categories_by_name(std::string_view name) {
  using namespace unicode;  // NOLINT: the names below are all from there
  struct Entry {
    std::string_view name;
    uint32_t mask;
  };
  static constexpr Entry kEntries[] = {
      {"L", kLetter},   {"M", kMark},     {"N", kNumber},   {"P", kPunctuation}, {"S", kSymbol},   {"Z", kSeparator},
      {"Lu", bit(kLu)}, {"Ll", bit(kLl)}, {"Lt", bit(kLt)}, {"Lm", bit(kLm)},    {"Lo", bit(kLo)},
  };
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.mask;
  }
  LOCI_CHECK(false, "unknown category \\p{", name, "}");
  return 0;
}

char fold(uint32_t cp) { return static_cast<char>(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp); }

}  // namespace

void CharClass::add_whitespace() {
  add_categories(unicode::kSeparator);
  add_range(9, 13);
  add_range(0x85, 0x85);
}

void CharClass::finish() {
  for (uint32_t cp = 0; cp < 128; ++cp) {
    if (lookup(cp, unicode::category(cp))) ascii_[cp >> 6] |= uint64_t{1} << (cp & 63);
  }
}

bool CharClass::lookup(uint32_t cp, uint32_t category) const {
  bool in = (categories_ >> category & 1) != 0;
  for (size_t i = 0; i < ranges_.size() && !in; ++i) in = cp >= ranges_[i].first && cp <= ranges_[i].second;
  return in != negated_;
}

class PatternParser {
 public:
  PatternParser(std::string_view source, Pattern& pattern) : source_(source), pattern_(pattern) {}

  void parse() {
    pattern_.alternatives_.emplace_back();
    while (pos_ < source_.size()) {
      if (source_[pos_] == '|') {
        ++pos_;
        pattern_.alternatives_.emplace_back();
        continue;
      }
      pattern_.alternatives_.back().items.push_back(item());
    }
    for (Pattern::Alternative& alternative : pattern_.alternatives_) finish(alternative);
  }

 private:
  bool skip(std::string_view text) {
    if (source_.substr(pos_, text.size()) != text) return false;
    pos_ += text.size();
    return true;
  }

  uint32_t next() {
    LOCI_CHECK(pos_ < source_.size(), "pattern ends early: ", source_);
    const unicode::Decoded d = unicode::decode(source_, pos_);
    LOCI_CHECK(d.valid, "pattern is not UTF-8: ", source_);
    pos_ += d.length;
    return d.cp;
  }

  // What follows a backslash. A class is added to `chars` (returns -1); a character is returned.
  int64_t escape(CharClass& chars) {
    const uint32_t c = next();
    switch (c) {
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 's':
        chars.add_whitespace();
        return -1;
      case 'S':
        chars.add_whitespace();
        chars.negate();
        return -1;
      case 'x':
      case 'p': {
        LOCI_CHECK(skip("{"), "expected { in ", source_);
        const size_t close = source_.find('}', pos_);
        LOCI_CHECK(close != std::string_view::npos, "expected } in ", source_);
        const std::string name(source_.substr(pos_, close - pos_));
        pos_ = close + 1;
        if (c == 'x') return std::stol(name, nullptr, 16);
        chars.add_categories(categories_by_name(name));
        return -1;
      }
      default:
        LOCI_CHECK(c < 128 && unicode::category(c) != unicode::kLl && unicode::category(c) != unicode::kLu,
                   "unknown escape in ", source_);
        return c;
    }
  }

  void bracket(CharClass& chars) {
    const bool negated = skip("^");
    for (bool first = true; first || !skip("]"); first = false) {
      int64_t low = next();
      if (low == '\\') low = escape(chars);
      if (low < 0) continue;
      int64_t high = low;
      if (pos_ + 1 < source_.size() && source_[pos_] == '-' && source_[pos_ + 1] != ']') {
        ++pos_;
        high = next();
        if (high == '\\') high = escape(chars);
      }
      LOCI_CHECK(high >= low, "bad range in ", source_);
      chars.add_range(static_cast<uint32_t>(low), static_cast<uint32_t>(high));
    }
    if (negated) chars.negate();
  }

  Pattern::Item item() {
    Pattern::Item item;
    if (skip("(?i:")) {
      item.kind = Pattern::Kind::kLiterals;
      item.literals.emplace_back();
      for (uint32_t c = next(); c != ')'; c = next()) {
        if (c == '|') {
          item.literals.emplace_back();
        } else {
          item.literals.back() += fold(c);
        }
      }
    } else if (skip("(?!\\S)")) {
      item.kind = Pattern::Kind::kNotFollowedBy;
      item.chars.add_whitespace();
      item.chars.negate();
      item.chars.finish();
      return item;
    } else if (skip("$")) {
      item.kind = Pattern::Kind::kEnd;
      return item;
    } else if (skip("[")) {
      bracket(item.chars);
    } else {
      int64_t c = next();
      if (c == '\\') c = escape(item.chars);
      if (c >= 0) item.chars.add_range(static_cast<uint32_t>(c), static_cast<uint32_t>(c));
    }
    item.chars.finish();
    quantifier(item);
    return item;
  }

  void quantifier(Pattern::Item& item) {
    if (skip("?")) {
      item.min = 0;
    } else if (skip("*")) {
      item.min = 0, item.max = kUnbounded;
    } else if (skip("+")) {
      item.max = kUnbounded;
    } else if (skip("{")) {
      const size_t close = source_.find('}', pos_);
      LOCI_CHECK(close != std::string_view::npos, "expected } in ", source_);
      const std::string body(source_.substr(pos_, close - pos_));
      pos_ = close + 1;
      const size_t comma = body.find(',');
      item.min = std::stoul(body);
      item.max = comma == std::string::npos ? item.min : std::stoul(body.substr(comma + 1));
    }
  }

  // Which ASCII characters can begin a match, and the special form X+$.
  void finish(Pattern::Alternative& alternative) const {
    using Kind = Pattern::Kind;
    const std::vector<Pattern::Item>& items = alternative.items;
    LOCI_CHECK(!items.empty() && items.size() <= kMaxItems, "alternative of unsupported length in ", source_);
    if (items.back().kind == Kind::kEnd) {
      LOCI_CHECK(items.size() == 2 && items[0].kind == Kind::kClass && items[0].min == 1 && items[0].max == kUnbounded,
                 "$ is supported as X+$ only: ", source_);
      alternative.is_suffix_run = true;
    }
    for (const Pattern::Item& item : items) {
      if (item.kind == Kind::kClass) {
        for (int half = 0; half < 2; ++half) alternative.first[half] |= item.chars.ascii(half);
        if (item.min > 0) break;
      } else if (item.kind == Kind::kLiterals) {
        for (const std::string& literal : item.literals) {
          LOCI_CHECK(!literal.empty() && literal[0] == '\'', "group literals begin with ': ", source_);
        }
        alternative.first[0] |= uint64_t{1} << '\'';
        if (item.min > 0) break;
      } else {
        LOCI_CHECK(false, "alternative can be empty in ", source_);
      }
    }
  }

  std::string_view source_;
  Pattern& pattern_;
  size_t pos_ = 0;
};

Pattern::Pattern(std::string_view source) { PatternParser(source, *this).parse(); }

// The end of the match that begins at `pos`, or kNoMatch. Greedy, giving back one character at a time.
size_t Pattern::match(const Alternative& alternative, const Char* text, size_t pos, size_t end) {
  struct Frame {
    size_t start, count;
  };
  Frame frames[kMaxItems];
  const std::vector<Item>& items = alternative.items;
  size_t i = 0;
  while (i < items.size()) {
    const Item& item = items[i];
    bool ok = false;
    switch (item.kind) {
      case Kind::kClass: {
        const size_t limit = item.max < end - pos ? item.max : end - pos;
        size_t count = 0;
        while (count < limit && item.chars.matches(text[pos + count])) ++count;
        frames[i] = {pos, count};
        ok = count >= item.min;
        if (ok) pos += count;
        break;
      }
      case Kind::kLiterals: {
        size_t length = 0;
        for (const std::string& literal : item.literals) {
          if (literal.size() > end - pos) continue;
          size_t k = 0;
          while (k < literal.size() && text[pos + k].cp() < 128 && fold(text[pos + k].cp()) == literal[k]) ++k;
          if (k == literal.size()) {
            length = k;
            break;
          }
        }
        frames[i] = {pos, 0};
        ok = length > 0 || item.min == 0;
        pos += length;
        break;
      }
      case Kind::kNotFollowedBy:
        frames[i] = {pos, 0};
        ok = pos == end || !item.chars.matches(text[pos]);
        break;
      case Kind::kEnd:
        frames[i] = {pos, 0};
        ok = pos == end;
        break;
    }
    if (ok) {
      ++i;
      continue;
    }
    for (;;) {
      if (i == 0) return kNoMatch;
      --i;
      if (items[i].kind == Kind::kClass && frames[i].count > items[i].min) break;
    }
    --frames[i].count;
    pos = frames[i].start + frames[i].count;
    ++i;
  }
  return pos;
}

void Pattern::split(const std::vector<Char>& text, size_t begin, size_t end, std::vector<size_t>& ends) const {
  size_t suffix_begin = kNoMatch;  // start of the trailing run of the X of X+$, found when first needed
  size_t gap = begin;              // start of the stretch that nothing has matched yet
  for (size_t pos = begin; pos < end;) {
    size_t match_end = kNoMatch;
    const uint32_t cp = text[pos].cp();
    for (const Alternative& alternative : alternatives_) {
      if (cp < 128 && (alternative.first[cp >> 6] >> (cp & 63) & 1) == 0) continue;
      if (alternative.is_suffix_run) {
        if (suffix_begin == kNoMatch) {
          suffix_begin = end;
          while (suffix_begin > pos && alternative.items[0].chars.matches(text[suffix_begin - 1])) --suffix_begin;
        }
        if (pos >= suffix_begin) match_end = end;
      } else {
        match_end = match(alternative, text.data(), pos, end);
      }
      if (match_end != kNoMatch) break;
    }
    if (match_end == kNoMatch || match_end == pos) {
      ++pos;
      continue;
    }
    if (gap < pos) ends.push_back(pos);
    ends.push_back(match_end);
    pos = gap = match_end;
  }
  if (gap < end) ends.push_back(end);
}

}  // namespace loci
