// Filters on text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/format.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/string_ops.h"
#include "engine/text/jinja/to_text.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

template <Text (*F)(const Text&)>
Value mapped(Runtime& runtime, Args& args) {
  const Bound bound(args, "filter", {"s"}, 1);
  const Text text = to_text(bound[0]);
  runtime.charge_bytes(text.size());
  return Value::string(F(text), bound[0].is_markup());
}

// As Jinja: the first letter after white space, hyphens and opening brackets is a capital, the rest small.
Text title_words(const Text& text) {
  Text out;
  bool at_start = true;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text.view(), i);
    const bool separates =
        is_space(c.value) ||
        (c.value < 0x80 && std::string_view("-({[<").find(static_cast<char>(c.value)) != std::string_view::npos);
    const Text one = text.slice(i, i + c.size);
    out.append(separates ? one : at_start ? upper(one) : lower(one));
    at_start = separates;
    i += c.size;
  }
  return out;
}

Value filter_trim(Runtime& runtime, Args& args) {
  const Bound bound(args, "trim", {"value", "chars"}, 1);
  const Text text = to_text(bound[0]);
  runtime.charge_bytes(text.size());
  return Value::string(strip(text, bound.given(1) ? &bound.text(1) : nullptr, true, true), bound[0].is_markup());
}

Value filter_replace(Runtime& runtime, Args& args) {
  const Bound bound(args, "replace", {"s", "old", "new", "count"}, 3);
  return Value::string(
      replace(runtime, to_text(bound[0]), to_text(bound[1]).view(), to_text(bound[2]), bound.integer(3, -1)));
}

Value filter_string(Runtime& runtime, Args& args) {
  const Bound bound(args, "string", {"object"}, 1);
  if (bound[0].is_string()) return bound[0];
  runtime.charge(bound[0].weight());
  Text text = to_text(bound[0]);
  runtime.charge_bytes(text.size());
  return Value::string(std::move(text));
}

Value filter_safe(Runtime&, Args& args) { return Value::string(to_text(Bound(args, "safe", {"value"}, 1)[0]), true); }
Value filter_escape(Runtime& runtime, Args& args) {
  const Bound bound(args, "escape", {"value"}, 1);
  if (bound[0].is_markup()) return bound[0];
  Text text = escape_html(to_text(bound[0]));
  runtime.charge_bytes(text.size());
  return Value::string(std::move(text), true);
}
Value filter_forceescape(Runtime& runtime, Args& args) {
  Text text = escape_html(to_text(Bound(args, "forceescape", {"value"}, 1)[0]));
  runtime.charge_bytes(text.size());
  return Value::string(std::move(text), true);
}

Value filter_center(Runtime& runtime, Args& args) {
  const Bound bound(args, "center", {"value", "width"}, 1);
  return Value::string(pad_to(runtime, to_text(bound[0]), bound.integer(1, 80), Text(" ", Origin::kTemplate), '^'));
}

Value filter_indent(Runtime& runtime, Args& args) {
  const Bound bound(args, "indent", {"s", "width", "first", "blank"}, 1);
  Text indention;
  if (bound.has(1) && bound[1].is_string()) {
    indention = bound[1].text();
  } else {
    const int64_t width = bound.integer(1, 4);
    if (width > 10000) throw RenderError(str("indent: expected a width of at most 10000, found ", width));
    indention = Text(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), Origin::kTemplate);
  }
  const bool first = bound.boolean(2, false), blank = bound.boolean(3, false);
  Text source = to_text(bound[0]);
  source.append("\n", Origin::kTemplate);
  Text out;
  if (first) out.append(indention);
  bool is_first = true;
  for (const Text& line : split_lines(source, false)) {
    runtime.charge_bytes(line.size() + indention.size() + 1);
    if (!is_first) {
      out.append("\n", Origin::kTemplate);
      if (blank || !line.empty()) out.append(indention);
    }
    is_first = false;
    out.append(line);
  }
  return Value::string(std::move(out), bound[0].is_markup());
}

Value filter_truncate(Runtime& runtime, Args& args) {
  const Bound bound(args, "truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const Text text = to_text(bound[0]);
  runtime.charge_bytes(text.size());
  const int64_t limit = bound.integer(1, 255), leeway = bound.given(4) ? bound.integer(4, 5) : 5;
  const Text end = bound.has(3) ? bound.text(3) : Text("...", Origin::kTemplate);
  const int64_t end_size = static_cast<int64_t>(count_code_points(end.view()));
  if (limit < end_size) throw RenderError(str("truncate: expected length >= ", end_size, ", found ", limit));
  if (leeway < 0) throw RenderError(str("truncate: expected leeway >= 0, found ", leeway));
  if (static_cast<int64_t>(count_code_points(text.view())) - limit <= leeway) return Value::string(text);
  Text out = text.slice(0, offset_of(text.view(), static_cast<size_t>(limit - end_size)));
  if (!bound.boolean(2, false)) {
    const size_t space = out.view().rfind(' ');
    if (space != std::string_view::npos) out = out.slice(0, space);
  }
  out.append(end);
  return Value::string(std::move(out));
}

Value filter_wordcount(Runtime& runtime, Args& args) {
  const Text text = to_text(Bound(args, "wordcount", {"s"}, 1)[0]);
  runtime.charge_bytes(text.size());
  int64_t n = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text.view(), i);
    const bool is_word = is_alpha(c.value) || c.value == '_' || (c.value >= '0' && c.value <= '9');
    n += is_word && !in_word;
    in_word = is_word;
    i += c.size;
  }
  return Value::integer(n);
}

Value filter_urlencode(Runtime& runtime, Args& args) {
  const Bound bound(args, "urlencode", {"value"}, 1);
  const auto quote = [&](const Value& v, bool keep_slash) {
    Text out;
    to_text(v).for_each_run([&](std::string_view run, Origin origin) {
      std::string quoted;
      for (const char c : run) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                           c == '.' || c == '-' || c == '~' || (c == '/' && keep_slash);
        char buffer[4];
        std::snprintf(buffer, sizeof buffer, "%%%02X", static_cast<uint8_t>(c));
        if (plain)
          quoted += c;
        else if (c == ' ' && !keep_slash)
          quoted += '+';
        else
          quoted += buffer;
      }
      out.append(quoted, origin);
    });
    runtime.charge_bytes(out.size());
    return out;
  };
  if (bound[0].is_string() || !(bound[0].is_dict() || bound[0].is_sequence())) {
    return Value::string(quote(bound[0], true));
  }
  Text out;
  const auto put_pair = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&", Origin::kTemplate);
    out.append(quote(key, false));
    out.append("=", Origin::kTemplate);
    out.append(quote(value, false));
  };
  if (bound[0].is_dict()) {
    for (const auto& [key, value] : bound[0].as_dict().items) put_pair(key, value);
  } else {
    for (const Value& pair : bound[0].items()) {
      const std::vector<Value> parts = walk(runtime, pair);
      if (parts.size() != 2) throw RenderError("urlencode: expected pairs of key and value");
      put_pair(parts[0], parts[1]);
    }
  }
  return Value::string(std::move(out));
}

Value filter_format(Runtime& runtime, Args& args) {
  if (args.positional.empty()) throw RenderError("format: expected a string");
  if (!args.keyword.empty() && args.positional.size() > 1) {
    throw RenderError("can't handle positional and keyword arguments at the same time");
  }
  const Value format = Value::string(to_text(args.positional[0]));
  if (!args.keyword.empty()) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : args.keyword) items.emplace_back(Value::string(name), value);
    return format_percent(runtime, format, Value::dict(std::move(items)));
  }
  std::vector<Value> rest(args.positional.begin() + 1, args.positional.end());
  return format_percent(runtime, format, Value::sequence(std::move(rest), SequenceKind::kTuple));
}

Value filter_tojson(Runtime& runtime, Args& args) {
  const Bound bound(args, "tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = bound.boolean(1, false);
  style.sort_keys = bound.boolean(4, false);
  if (bound.given(2)) {
    style.multiline = true;
    style.item_separator.resize(1);  // "," without the blank
    if (bound[2].is_string()) {
      style.indent = std::string(bound[2].view());
    } else {
      style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(bound.integer(2, 0), 0, 100)), ' ');
    }
  }
  if (bound.given(3)) {
    const std::vector<Value> separators = walk(runtime, bound[3]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      throw RenderError("tojson: expected separators to be a pair of strings");
    }
    style.item_separator = std::string(separators[0].view());
    style.key_separator = std::string(separators[1].view());
  }
  runtime.charge(bound[0].weight());
  Text text = to_json(bound[0], style);
  runtime.charge_bytes(text.size());
  return Value::string(std::move(text));
}

// ---- Numbers.

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(static_cast<uint8_t>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<uint8_t>(text.back()))) text.remove_suffix(1);
  return text;
}

std::optional<double> parse_float(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ptr != text.data() + text.size() || result.ec == std::errc::invalid_argument) return std::nullopt;
  return value;
}

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  text = trimmed(text);
  bool minus = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    minus = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto prefixed = [&](char letter, int64_t with) {
    if (text.size() > 2 && text[0] == '0' && (text[1] | 32) == letter && (base == with || base == 0)) {
      text.remove_prefix(2);
      base = with;
    }
  };
  prefixed('x', 16);
  prefixed('o', 8);
  prefixed('b', 2);
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, static_cast<int>(base));
  if (result.ptr != text.data() + text.size() || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec != std::errc()) throw RenderError("int: the number is too large (64 bits are supported)");
  return minus ? -value : value;
}

Value filter_int(Runtime&, Args& args) {
  const Bound bound(args, "int", {"value", "default", "base"}, 1);
  require_defined(bound[0]);
  const Value fallback = bound.has(1) ? bound[1] : Value::integer(0);
  if (bound[0].is_int_like()) return Value::integer(bound[0].as_int());
  std::optional<double> number;
  if (bound[0].is(Kind::kFloat)) number = bound[0].as_double();
  if (bound[0].is_string()) {
    if (const auto whole = parse_int(bound[0].view(), bound.integer(2, 10))) return Value::integer(*whole);
    number = parse_float(bound[0].view());
  }
  if (!number || !std::isfinite(*number)) return fallback;
  if (std::fabs(*number) >= 9.2e18) throw RenderError("int: the number is too large (64 bits are supported)");
  return Value::integer(static_cast<int64_t>(*number));
}

Value filter_float(Runtime&, Args& args) {
  const Bound bound(args, "float", {"value", "default"}, 1);
  require_defined(bound[0]);
  if (bound[0].is_number()) return Value::number(bound[0].as_double());
  if (bound[0].is_string()) {
    if (const auto number = parse_float(bound[0].view())) return Value::number(*number);
  }
  return bound.has(1) ? bound[1] : Value::number(0);
}

Value filter_abs(Runtime&, Args& args) {
  const Bound bound(args, "abs", {"x"}, 1);
  if (bound[0].is(Kind::kFloat)) return Value::number(std::fabs(bound[0].as_double()));
  if (bound[0].is_int_like()) return bound[0].as_int() < 0 ? negative(bound[0]) : Value::integer(bound[0].as_int());
  throw RenderError(str("bad operand type for abs(): '", type_name(bound[0]), "'"));
}

Value filter_round(Runtime&, Args& args) {
  const Bound bound(args, "round", {"value", "precision", "method"}, 1);
  const int64_t precision = bound.integer(1, 0);
  const std::string method = bound.string(2, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    throw RenderError("round: expected method 'common', 'ceil' or 'floor'");
  }
  require_defined(bound[0]);
  if (!bound[0].is_number()) throw RenderError(str("type ", type_name(bound[0]), " doesn't define __round__ method"));
  if (precision > 300 || precision < -300) throw RenderError("round: expected a precision from -300 to 300");
  const double value = bound[0].as_double();
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    return Value::number((method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale);
  }
  if (bound[0].is_int_like() && precision >= 0) return Value::integer(bound[0].as_int());
  if (!std::isfinite(value)) return Value::number(value);
  double rounded = 0;
  if (precision >= 0) {
    // Through decimal digits, as Python: halves of the exact binary value go to even.
    char buffer[800];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    rounded = std::strtod(buffer, nullptr);
  } else {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    rounded = std::nearbyint(value / scale) * scale;
  }
  return bound[0].is_int_like() ? Value::integer(static_cast<int64_t>(rounded)) : Value::number(rounded);
}

constexpr NamedBuiltin kFilters[] = {
    {"abs", filter_abs},
    {"capitalize", mapped<capitalize>},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"lower", mapped<lower>},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", mapped<title_words>},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", mapped<upper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

}  // namespace

Builtin find_text_filter(std::string_view name) { return find_in(kFilters, name); }

}  // namespace loci::jinja
