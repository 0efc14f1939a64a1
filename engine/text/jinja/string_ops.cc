#include "engine/text/jinja/string_ops.h"

#include <algorithm>

#include "engine/text/jinja/unicode.h"

namespace loci::jinja {
namespace {

// Replaces every code point by what f(code point) appends.
template <typename F>
Text map_code_points(const Text& text, F f) {
  Text out;
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string mapped;
    mapped.reserve(run.size());
    for (size_t i = 0; i < run.size();) {
      const auto byte = static_cast<uint8_t>(run[i]);
      const CodePoint c = byte < 0x80 ? CodePoint{byte, 1} : decode_at(run, i);
      f(c.value, mapped);
      i += c.size;
    }
    out.append(mapped, origin);
  });
  return out;
}

void append_upper(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (c == 0xDF) {
    out += "SS";
  } else {
    append_utf8(out, to_upper(c));
  }
}

void append_lower(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else {
    append_utf8(out, to_lower(c));
  }
}

bool is_cased(uint32_t c) { return to_upper(c) != c || to_lower(c) != c; }

}  // namespace

Text upper(const Text& text) { return map_code_points(text, append_upper); }

Text lower(const Text& text) { return map_code_points(text, append_lower); }

Text capitalize(const Text& text) {
  bool first = true;
  return map_code_points(text, [&](uint32_t c, std::string& out) {
    append_utf8(out, first ? to_upper(c) : to_lower(c));
    first = false;
  });
}

Text title(const Text& text) {
  bool in_word = false;
  return map_code_points(text, [&](uint32_t c, std::string& out) {
    append_utf8(out, in_word ? to_lower(c) : to_upper(c));
    in_word = is_cased(c) || is_alpha(c);
  });
}

Text swap_case(const Text& text) {
  return map_code_points(text, [](uint32_t c, std::string& out) {
    if (to_upper(c) != c)
      append_upper(c, out);
    else
      append_utf8(out, to_lower(c));
  });
}

Text strip(const Text& text, const Text* chars, bool left, bool right) {
  const std::string_view bytes = text.view();
  std::vector<uint32_t> set;
  if (chars != nullptr) {
    for (size_t i = 0; i < chars->size();) {
      const CodePoint c = decode_at(chars->view(), i);
      set.push_back(c.value);
      i += c.size;
    }
  }
  const auto drops = [&](uint32_t c) {
    return chars == nullptr ? is_space(c) : std::find(set.begin(), set.end(), c) != set.end();
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const CodePoint c = decode_at(bytes, begin);
    if (!drops(c.value)) break;
    begin += c.size;
  }
  while (right && end > begin) {
    const size_t before = previous(bytes, end);
    if (before < begin || !drops(decode_at(bytes, before).value)) break;
    end = before;
  }
  return text.slice(begin, end);
}

std::vector<Text> split(Runtime& runtime, const Text& text, std::string_view separator, int64_t most, bool from_right) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  if (from_right) {
    runtime.charge(bytes.size() / 64 * separator.size());  // rfind is quadratic at worst
    size_t end = bytes.size();
    while (most != 0) {
      const size_t at =
          end < separator.size() ? std::string_view::npos : bytes.rfind(separator, end - separator.size());
      if (at == std::string_view::npos) break;
      parts.push_back(text.slice(at + separator.size(), end));
      end = at;
      --most;
    }
    parts.push_back(text.slice(0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  size_t begin = 0;
  while (most != 0) {
    const size_t at = find_text(bytes, separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back(text.slice(begin, at));
    begin = at + separator.size();
    --most;
  }
  parts.push_back(text.slice(begin, bytes.size()));
  return parts;
}

std::vector<Text> split_on_space(const Text& text, int64_t most, bool from_right) {
  const std::string_view bytes = text.view();
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < bytes.size();) {
    size_t begin = i;
    while (i < bytes.size() && !is_space(decode_at(bytes, i).value)) i += decode_at(bytes, i).size;
    if (i > begin) words.emplace_back(begin, i);
    if (i < bytes.size()) i += decode_at(bytes, i).size;
  }
  std::vector<Text> parts;
  if (most < 0 || static_cast<size_t>(most) >= words.size()) {
    for (const auto& [begin, end] : words) parts.push_back(text.slice(begin, end));
    return parts;
  }
  const size_t n = static_cast<size_t>(most);
  if (from_right) {
    // As in Python, the first part keeps the white space before it.
    const size_t head = words.size() - n;
    parts.push_back(text.slice(0, words[head - 1].second));
    for (size_t i = head; i < words.size(); ++i) parts.push_back(text.slice(words[i].first, words[i].second));
    return parts;
  }
  for (size_t i = 0; i < n; ++i) parts.push_back(text.slice(words[i].first, words[i].second));
  parts.push_back(text.slice(words[n].first, bytes.size()));
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = decode_at(bytes, i);
    const size_t end = i;
    i += c.size;
    if (!is_line_break(c.value)) continue;
    if (c.value == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    lines.push_back(text.slice(begin, keep_ends ? i : end));
    begin = i;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text replace(Runtime& runtime, const Text& text, std::string_view old, const Text& replacement, int64_t count) {
  const std::string_view bytes = text.view();
  runtime.charge_bytes(bytes.size());
  Text out;
  size_t begin = 0;
  const auto put = [&] {
    runtime.charge_bytes(replacement.size());
    out.append(replacement);
  };
  if (old.empty()) {
    for (; count != 0; --count) {
      put();
      if (begin >= bytes.size()) break;
      const size_t size = decode_at(bytes, begin).size;
      out.append(text, begin, begin + size);
      begin += size;
    }
    out.append(text, begin, bytes.size());
    return out;
  }
  for (; count != 0; --count) {
    const size_t at = find_text(bytes, old, begin);
    if (at == std::string_view::npos) break;
    out.append(text, begin, at);
    put();
    begin = at + old.size();
  }
  out.append(text, begin, bytes.size());
  return out;
}

Text pad_to(Runtime& runtime, const Text& text, int64_t width, const Text& fill, char align) {
  const int64_t missing = width - static_cast<int64_t>(count_code_points(text.view()));
  if (missing <= 0) return text;
  runtime.charge_bytes(static_cast<uint64_t>(missing) * fill.size());
  // Python's str.center: the odd one goes left when the width is odd.
  const int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
  Text out;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(fill);
  return out;
}

}  // namespace loci::jinja
