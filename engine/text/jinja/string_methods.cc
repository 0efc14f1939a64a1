// The methods of Python's str.
#include <algorithm>

#include "engine/text/jinja/format.h"
#include "engine/text/jinja/string_ops.h"
#include "engine/text/jinja/to_text.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

Value same_type(const Value& self, Text text) { return Value::string(std::move(text), self.is_markup()); }

// [start, end) arguments of find, count, startswith, ... as byte offsets; nullopt when start lies behind the end.
struct Window {
  size_t begin, end;
};
std::optional<Window> window(const Value& self, const Bound& args, size_t i) {
  const std::string_view text = self.view();
  if (!args.given(i) && !args.given(i + 1)) return Window{0, text.size()};
  const int64_t size = length(self);
  const auto index = [&](size_t which, int64_t fallback) {
    if (!args.given(which)) return fallback;
    const int64_t value = args.integer(which, 0);
    return value < 0 ? std::max<int64_t>(0, std::max<int64_t>(value, -size) + size) : value;
  };
  const int64_t begin = index(i, 0), end = std::min(index(i + 1, size), size);
  if (begin > size || begin > end) return std::nullopt;
  return Window{offset_of(text, static_cast<size_t>(begin)), offset_of(text, static_cast<size_t>(end))};
}

Value method_strip(Runtime& runtime, Args& args, bool left, bool right, const char* name) {
  const Bound bound(args, name, {"self", "chars"}, 1);
  Text text = strip(bound[0].text(), bound.given(1) ? &bound.text(1) : nullptr, left, right);
  runtime.charge_bytes(text.size());
  return same_type(bound[0], std::move(text));
}
Value method_strip_both(Runtime& r, Args& a) { return method_strip(r, a, true, true, "strip"); }
Value method_lstrip(Runtime& r, Args& a) { return method_strip(r, a, true, false, "lstrip"); }
Value method_rstrip(Runtime& r, Args& a) { return method_strip(r, a, false, true, "rstrip"); }

Value as_list(const std::vector<Text>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const Text& part : parts) items.push_back(Value::string(part));
  return Value::sequence(std::move(items));
}

Value split_with(Runtime& runtime, Args& args, bool from_right) {
  const Bound bound(args, from_right ? "rsplit" : "split", {"self", "sep", "maxsplit"}, 1);
  const Text& text = bound[0].text();
  runtime.charge_bytes(2 * text.size());
  const int64_t most = bound.integer(2, -1);
  if (!bound.given(1)) return as_list(split_on_space(text, most, from_right));
  if (bound.text(1).empty()) throw RenderError("empty separator");
  const std::vector<Text> parts = split(runtime, text, bound.text(1).view(), most, from_right);
  runtime.charge_bytes(parts.size() * sizeof(Value));
  return as_list(parts);
}
Value method_split(Runtime& r, Args& a) { return split_with(r, a, false); }
Value method_rsplit(Runtime& r, Args& a) { return split_with(r, a, true); }

Value method_splitlines(Runtime& runtime, Args& args) {
  const Bound bound(args, "splitlines", {"self", "keepends"}, 1);
  runtime.charge_bytes(bound[0].text().size());
  return as_list(split_lines(bound[0].text(), bound.boolean(1, false)));
}

Value affix(Args& args, bool at_start) {
  const Bound bound(args, at_start ? "startswith" : "endswith",
                    {"self", at_start ? "prefix" : "suffix", "start", "end"}, 2);
  const std::optional<Window> w = window(bound[0], bound, 2);
  const auto matches = [&](const Value& what) {
    if (!what.is_string()) {
      throw RenderError(
          str(at_start ? "startswith" : "endswith", " first arg must be str or a tuple of str, not ", type_name(what)));
    }
    if (!w) return false;
    const std::string_view text = bound[0].view().substr(w->begin, w->end - w->begin), part = what.view();
    if (part.size() > text.size()) return false;
    return at_start ? text.substr(0, part.size()) == part : text.substr(text.size() - part.size()) == part;
  };
  const Value& what = bound[1];
  if (what.is_sequence() && what.sequence_kind() == SequenceKind::kTuple) {
    return Value::boolean(std::any_of(what.items().begin(), what.items().end(), matches));
  }
  return Value::boolean(matches(what));
}
Value method_startswith(Runtime&, Args& a) { return affix(a, true); }
Value method_endswith(Runtime&, Args& a) { return affix(a, false); }

Value method_removeprefix(Runtime&, Args& args) {
  const Bound bound(args, "removeprefix", {"self", "prefix"}, 2);
  const Text& text = bound[0].text();
  const std::string_view part = bound.text(1).view();
  const bool has = text.view().substr(0, part.size()) == part;
  return same_type(bound[0], text.slice(has ? part.size() : 0, text.size()));
}
Value method_removesuffix(Runtime&, Args& args) {
  const Bound bound(args, "removesuffix", {"self", "suffix"}, 2);
  const Text& text = bound[0].text();
  const std::string_view part = bound.text(1).view();
  const bool has = text.size() >= part.size() && text.view().substr(text.size() - part.size()) == part;
  return same_type(bound[0], text.slice(0, has ? text.size() - part.size() : text.size()));
}

Value method_replace(Runtime& runtime, Args& args) {
  const Bound bound(args, "replace", {"self", "old", "new", "count"}, 3);
  return same_type(bound[0],
                   replace(runtime, bound[0].text(), bound.text(1).view(), bound.text(2), bound.integer(3, -1)));
}

Value search(Runtime& runtime, Args& args, const char* name, bool from_right, bool must_find) {
  const Bound bound(args, name, {"self", "sub", "start", "end"}, 2);
  const std::optional<Window> w = window(bound[0], bound, 2);
  if (w) {
    const std::string_view text = bound[0].view(), part = bound.text(1).view();
    const std::string_view within = text.substr(0, w->end);
    runtime.charge(within.size() / 64 * (from_right ? part.size() : 1));  // rfind is quadratic at worst
    const size_t at = from_right ? within.rfind(part) : find_text(within, part, w->begin);
    if (at != std::string_view::npos && at >= w->begin) {
      return Value::integer(static_cast<int64_t>(count_code_points(text.substr(0, at))));
    }
  }
  if (must_find) throw RenderError("substring not found");
  return Value::integer(-1);
}
Value method_find(Runtime& r, Args& a) { return search(r, a, "find", false, false); }
Value method_rfind(Runtime& r, Args& a) { return search(r, a, "rfind", true, false); }
Value method_index(Runtime& r, Args& a) { return search(r, a, "index", false, true); }
Value method_rindex(Runtime& r, Args& a) { return search(r, a, "rindex", true, true); }

Value method_count(Runtime& runtime, Args& args) {
  const Bound bound(args, "count", {"self", "sub", "start", "end"}, 2);
  const std::optional<Window> w = window(bound[0], bound, 2);
  if (!w) return Value::integer(0);
  const std::string_view text = bound[0].view().substr(w->begin, w->end - w->begin), part = bound.text(1).view();
  if (part.empty()) return Value::integer(static_cast<int64_t>(count_code_points(text)) + 1);
  runtime.charge(text.size() / 64);
  int64_t n = 0;
  for (size_t at = find_text(text, part); at != std::string_view::npos; at = find_text(text, part, at + part.size()))
    ++n;
  return Value::integer(n);
}

Value partition_at(Runtime& runtime, Args& args, bool from_right) {
  const Bound bound(args, from_right ? "rpartition" : "partition", {"self", "sep"}, 2);
  const Text& text = bound[0].text();
  const std::string_view sep = bound.text(1).view();
  if (sep.empty()) throw RenderError("empty separator");
  runtime.charge_bytes(text.size());
  runtime.charge(text.size() / 64 * (from_right ? sep.size() : 1));
  const size_t at = from_right ? text.view().rfind(sep) : find_text(text.view(), sep);
  std::vector<Value> parts;
  if (at == std::string_view::npos) {
    parts = {bound[0], Value::string(Text()), Value::string(Text())};
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    parts = {Value::string(text.slice(0, at)), Value::string(text.slice(at, at + sep.size())),
             Value::string(text.slice(at + sep.size(), text.size()))};
  }
  return Value::sequence(std::move(parts), SequenceKind::kTuple);
}
Value method_partition(Runtime& r, Args& a) { return partition_at(r, a, false); }
Value method_rpartition(Runtime& r, Args& a) { return partition_at(r, a, true); }

template <Text (*F)(const Text&)>
Value cased(Runtime& runtime, Args& args) {
  const Bound bound(args, "case method", {"self"}, 1);
  runtime.charge_bytes(bound[0].text().size());
  return same_type(bound[0], F(bound[0].text()));
}

Value method_join(Runtime& runtime, Args& args) {
  const Bound bound(args, "join", {"self", "iterable"}, 2);
  Text out;
  bool first = true;
  for (const Value& part : walk(runtime, bound[1])) {
    if (!part.is_string()) throw RenderError(str("sequence item: expected str instance, ", type_name(part), " found"));
    if (!first) out.append(bound[0].text());
    first = false;
    out.append(part.text());
    runtime.charge_bytes(part.text().size() + bound[0].text().size());
  }
  return same_type(bound[0], std::move(out));
}

Value method_format(Runtime& runtime, Args& args) { return format_braces(runtime, args); }
Value method_format_map(Runtime& runtime, Args& args) {
  const Bound bound(args, "format_map", {"self", "mapping"}, 2);
  if (!bound[1].is_dict()) throw RenderError("format_map() takes a mapping");
  Args spread;
  spread.positional.push_back(bound[0]);
  for (const auto& [key, value] : bound[1].as_dict().items) {
    if (key.is_string()) spread.keyword.emplace_back(std::string(key.view()), value);
  }
  return format_braces(runtime, spread);
}

Value justify(Runtime& runtime, Args& args, const char* name, char align) {
  const Bound bound(args, name, {"self", "width", "fillchar"}, 2);
  const Text fill = bound.has(2) ? bound.text(2) : Text(" ", Origin::kTemplate);
  if (count_code_points(fill.view()) != 1) throw RenderError("The fill character must be exactly one character long");
  return same_type(bound[0], pad_to(runtime, bound[0].text(), bound.integer(1, 0), fill, align));
}
Value method_ljust(Runtime& r, Args& a) { return justify(r, a, "ljust", '<'); }
Value method_rjust(Runtime& r, Args& a) { return justify(r, a, "rjust", '>'); }
Value method_center(Runtime& r, Args& a) { return justify(r, a, "center", '^'); }

Value method_zfill(Runtime& runtime, Args& args) {
  const Bound bound(args, "zfill", {"self", "width"}, 2);
  const Text& text = bound[0].text();
  const size_t sign = !text.empty() && (text.bytes()[0] == '+' || text.bytes()[0] == '-') ? 1 : 0;
  Text out = text.slice(0, sign);
  const int64_t width = bound.integer(1, 0) - static_cast<int64_t>(sign);
  out.append(pad_to(runtime, text.slice(sign, text.size()), width, Text("0", Origin::kTemplate), '>'));
  return same_type(bound[0], std::move(out));
}

Value method_expandtabs(Runtime& runtime, Args& args) {
  const Bound bound(args, "expandtabs", {"self", "tabsize"}, 1);
  const Text& text = bound[0].text();
  const int64_t size = std::clamp<int64_t>(bound.integer(1, 8), 0, 1000);
  Text out;
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text.view(), i);
    if (c.value == '\t') {
      const int64_t n = size > 0 ? size - column % size : 0;
      runtime.charge_bytes(static_cast<uint64_t>(n));
      out.append(std::string(static_cast<size_t>(n), ' '), text.origin_at(i));
      column += n;
    } else {
      out.append(text, i, i + c.size);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    i += c.size;
  }
  return same_type(bound[0], std::move(out));
}

// True when the string is not empty and every code point fits.
template <bool (*F)(uint32_t)>
Value all_are(Runtime& runtime, Args& args) {
  const Bound bound(args, "is-method", {"self"}, 1);
  const std::string_view text = bound[0].view();
  runtime.charge(text.size() / 16);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (!F(c.value)) return Value::boolean(false);
    i += c.size;
  }
  return Value::boolean(!text.empty());
}
bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_alnum(uint32_t c) { return is_alpha(c) || is_digit(c); }
bool is_identifier_part(uint32_t c) { return is_alnum(c) || c == '_'; }

Value method_isascii(Runtime&, Args& args) {
  const std::string_view text = Bound(args, "isascii", {"self"}, 1)[0].view();
  return Value::boolean(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; }));
}
Value method_isprintable(Runtime& runtime, Args& args) {
  return Value::boolean(args.positional.at(0).view().empty() || truth(all_are<is_printable>(runtime, args)));
}
Value method_isidentifier(Runtime& runtime, Args& args) {
  const std::string_view text = Bound(args, "isidentifier", {"self"}, 1)[0].view();
  if (text.empty() || is_digit(static_cast<uint8_t>(text[0]))) return Value::boolean(false);
  return all_are<is_identifier_part>(runtime, args);
}

// All cased code points are in the one case, and there is at least one.
Value one_case(Args& args, bool upper) {
  const std::string_view text = Bound(args, upper ? "isupper" : "islower", {"self"}, 1)[0].view();
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    const bool is_upper = to_lower(c.value) != c.value, is_lower = to_upper(c.value) != c.value;
    if (upper ? is_lower : is_upper) return Value::boolean(false);
    any = any || is_upper || is_lower;
    i += c.size;
  }
  return Value::boolean(any);
}
Value method_isupper(Runtime&, Args& a) { return one_case(a, true); }
Value method_islower(Runtime&, Args& a) { return one_case(a, false); }
Value method_istitle(Runtime&, Args& args) {
  const Text& text = Bound(args, "istitle", {"self"}, 1)[0].text();
  return Value::boolean(title(text).bytes() == text.bytes() && upper(text).bytes() != lower(text).bytes());
}

struct Entry {
  std::string_view name;
  Builtin function;
};
constexpr Entry kMethods[] = {
    {"capitalize", cased<capitalize>},
    {"casefold", cased<lower>},
    {"center", method_center},
    {"count", method_count},
    {"endswith", method_endswith},
    {"expandtabs", method_expandtabs},
    {"find", method_find},
    {"format", method_format},
    {"format_map", method_format_map},
    {"index", method_index},
    {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},
    {"isascii", method_isascii},
    {"isdecimal", all_are<is_digit>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", method_isidentifier},
    {"islower", method_islower},
    {"isnumeric", all_are<is_digit>},
    {"isprintable", method_isprintable},
    {"isspace", all_are<is_space>},
    {"istitle", method_istitle},
    {"isupper", method_isupper},
    {"join", method_join},
    {"ljust", method_ljust},
    {"lower", cased<lower>},
    {"lstrip", method_lstrip},
    {"partition", method_partition},
    {"removeprefix", method_removeprefix},
    {"removesuffix", method_removesuffix},
    {"replace", method_replace},
    {"rfind", method_rfind},
    {"rindex", method_rindex},
    {"rjust", method_rjust},
    {"rpartition", method_rpartition},
    {"rsplit", method_rsplit},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"splitlines", method_splitlines},
    {"startswith", method_startswith},
    {"strip", method_strip_both},
    {"swapcase", cased<swap_case>},
    {"title", cased<title>},
    {"upper", cased<upper>},
    {"zfill", method_zfill},
};

}  // namespace

Builtin find_string_method(std::string_view name) {
  const auto it = std::lower_bound(std::begin(kMethods), std::end(kMethods), name,
                                   [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
  return it != std::end(kMethods) && it->name == name ? it->function : nullptr;
}

}  // namespace loci::jinja
