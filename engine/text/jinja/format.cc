#include "engine/text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/to_text.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

constexpr int64_t kMaxWidth = 100000;
constexpr int64_t kMaxPrecision = 300;

// What both languages know of one field.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + space
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';  // , _
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

void pad(Text& out, const Text& body, const Spec& spec, char default_align, size_t sign_size) {
  const int64_t missing = spec.width - static_cast<int64_t>(count_code_points(body.view()));
  if (missing <= 0) return out.append(body);
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : default_align;
  const std::string& fill = spec.zero && spec.align == '\0' ? std::string("0") : spec.fill;
  const auto put = [&](int64_t n) {
    for (int64_t i = 0; i < n; ++i) out.append(fill, Origin::kTemplate);
  };
  if (align == '<') {
    out.append(body);
    put(missing);
  } else if (align == '^') {
    put(missing / 2);
    out.append(body);
    put(missing - missing / 2);
  } else if (align == '=') {
    out.append(body, 0, sign_size);
    put(missing);
    out.append(body, sign_size, body.size());
  } else {
    put(missing);
    out.append(body);
  }
}

std::string group(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string integer_digits(uint64_t magnitude, char type) {
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  char buffer[72];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
  std::string digits(buffer, result.ptr);
  if (type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  return digits;
}

void put_number(Text& out, bool is_negative, std::string prefix, std::string body, const Spec& spec) {
  std::string sign = is_negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  sign += prefix;
  const size_t sign_size = sign.size();
  pad(out, Text(sign + body, Origin::kTemplate), spec, '>', sign_size);
}

void put_integer(Text& out, int64_t value, const Spec& spec) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits = integer_digits(magnitude, spec.type);
  if (spec.grouping != '\0') digits = group(digits, spec.grouping, spec.type == 'd' || spec.type == '\0' ? 3 : 4);
  std::string prefix;
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
    prefix = std::string("0") + spec.type;
  }
  put_number(out, value < 0, prefix, digits, spec);
}

void put_float(Text& out, double value, const Spec& spec) {
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  std::string body;
  if (std::isnan(value) || std::isinf(value)) {
    body = std::isnan(value) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') body = std::isnan(value) ? "NAN" : "INF";
  } else if (spec.type == '\0' && spec.precision < 0) {
    body = float_repr(magnitude);
  } else {
    const bool percent = spec.type == '%';
    const char conversion = percent ? 'f' : spec.type == '\0' ? 'g' : spec.type == 'n' ? 'g' : spec.type;
    const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
    const char pattern[] = {'%', '.', '*', conversion, '\0'};
    char buffer[800];
    const int n = std::snprintf(buffer, sizeof buffer, pattern, precision, percent ? magnitude * 100 : magnitude);
    body.assign(buffer, static_cast<size_t>(std::clamp(n, 0, static_cast<int>(sizeof buffer) - 1)));
    if (spec.type == '\0' && body.find_first_of(".e") == std::string::npos) body += ".0";
    if (percent) body += '%';
  }
  if (spec.grouping != '\0') {
    const size_t end = std::min(body.find_first_not_of("0123456789"), body.size());
    body = group(body.substr(0, end), spec.grouping, 3) + body.substr(end);
  }
  put_number(out, is_negative, "", body, spec);
}

void put_text(Text& out, const Text& text, const Spec& spec) {
  if (spec.precision < 0) return pad(out, text, spec, '<', 0);
  pad(out, text.slice(0, offset_of(text.view(), static_cast<size_t>(spec.precision))), spec, '<', 0);
}

int64_t read_count(std::string_view text, size_t& i, int64_t limit, const char* what) {
  int64_t value = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
    value = value * 10 + (text[i++] - '0');
    if (value > limit) throw RenderError(str("format: ", what, " above ", limit));
  }
  return value;
}

// One {}-field's value by its specification "[[fill]align][sign][#][0][width][,][.precision][type]".
void put_braces_field(Text& out, const Value& v, std::string_view text) {
  Spec spec;
  size_t i = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t fill = text.empty() ? 0 : decode_at(text, 0).size;
  if (fill > 0 && fill < text.size() && is_align(text[fill])) {
    spec.fill = std::string(text.substr(0, fill));
    spec.align = text[fill];
    i = fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[i++];
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' ')) spec.sign = text[i++];
  if (i < text.size() && text[i] == '#') spec.alternate = true, ++i;
  if (i < text.size() && text[i] == '0') spec.zero = true, ++i;
  spec.width = read_count(text, i, kMaxWidth, "width");
  if (i < text.size() && (text[i] == ',' || text[i] == '_')) spec.grouping = text[i++];
  if (i < text.size() && text[i] == '.') {
    ++i;
    spec.precision = read_count(text, i, kMaxPrecision, "precision");
  }
  if (i < text.size()) spec.type = text[i++];
  if (i != text.size()) throw RenderError(str("invalid format specification '", text, "'"));

  const auto is_one_of = [&](std::string_view types) { return types.find(spec.type) != std::string_view::npos; };
  if (v.is_string()) {
    if (spec.type == '\0' || spec.type == 's') return put_text(out, v.text(), spec);
  } else if (v.is_int_like()) {
    const bool plain_bool = v.is(Kind::kBool) && text.empty();
    if (plain_bool) return out.append(to_text(v));
    if (spec.type == '\0' || is_one_of("dxXobn")) return put_integer(out, v.as_int(), spec);
    if (spec.type == 'c') {
      std::string character;
      append_utf8(character, static_cast<uint32_t>(std::clamp<int64_t>(v.as_int(), 0, 0x10FFFF)));
      return put_text(out, Text(character, Origin::kTemplate), spec);
    }
    if (is_one_of("eEfFgG%")) return put_float(out, v.as_double(), spec);
  } else if (v.is(Kind::kFloat)) {
    if (spec.type == '\0' || is_one_of("eEfFgGn%")) return put_float(out, v.as_double(), spec);
  } else {
    if (text.empty()) return out.append(to_text(v));
    throw RenderError(str("unsupported format string passed to ", type_name(v), ".__format__"));
  }
  throw RenderError(str("Unknown format code '", spec.type, "' for object of type '", type_name(v), "'"));
}

// "name.attribute[0]": the value a replacement field refers to.
Value field_value(std::string_view name, const Args& args, size_t& next_automatic) {
  size_t i = std::min(name.find_first_of(".["), name.size());
  const std::string first(name.substr(0, i));
  Value v;
  const bool is_number = !first.empty() && first.find_first_not_of("0123456789") == std::string::npos;
  if (first.empty() || is_number) {
    const size_t index = first.empty()      ? next_automatic++
                         : first.size() < 7 ? std::stoul(first)
                                            : args.positional.size();
    if (index + 1 >= args.positional.size()) {
      throw RenderError(str("Replacement index ", first.empty() ? std::to_string(index) : first,
                            " out of range for positional args tuple"));
    }
    v = args.positional[index + 1];
  } else {
    const auto it =
        std::find_if(args.keyword.begin(), args.keyword.end(), [&](const auto& k) { return k.first == first; });
    if (it == args.keyword.end()) throw RenderError(str("format: no argument named '", first, "'"));
    v = it->second;
  }
  while (i < name.size()) {
    if (name[i] == '.') {
      const size_t end = std::min(name.find_first_of(".[", i + 1), name.size());
      v = attribute(v, std::string(name.substr(i + 1, end - i - 1)));
      i = end;
      continue;
    }
    const size_t end = name[i] == '[' ? name.find(']', i) : std::string_view::npos;
    if (end == std::string_view::npos) throw RenderError("format: expected '}' or ']' in a replacement field");
    const std::string key(name.substr(i + 1, end - i - 1));
    const bool numeric = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    v = item(v, numeric ? Value::integer(std::stol(key)) : Value::string(key));
    i = end + 1;
  }
  return v;
}

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& args) {
  const Text& source = format.text();
  const std::string_view text = source.view();
  const bool is_tuple = args.is_sequence() && args.sequence_kind() == SequenceKind::kTuple;
  size_t used = 0;
  const auto next = [&]() -> Value {
    if (!is_tuple) {
      if (used++ > 0) throw RenderError("not enough arguments for format string");
      return args;
    }
    if (used >= args.items().size()) throw RenderError("not enough arguments for format string");
    return args.items()[used++];
  };
  Text out;
  for (size_t i = 0; i < text.size();) {
    const size_t percent = std::min(text.find('%', i), text.size());
    out.append(source, i, percent);
    if (percent == text.size()) break;
    i = percent + 1;
    std::optional<Value> named;
    if (i < text.size() && text[i] == '(') {
      const size_t end = text.find(')', i);
      if (end == std::string_view::npos) throw RenderError("incomplete format key");
      if (!args.is_dict()) throw RenderError("format requires a mapping");
      const Value* found = args.as_dict().find(text.substr(i + 1, end - i - 1));
      if (found == nullptr) throw RenderError(str("format: no key '", text.substr(i + 1, end - i - 1), "'"));
      named = *found;
      i = end + 1;
    }
    Spec spec;
    for (; i < text.size(); ++i) {
      if (text[i] == '-')
        spec.align = '<';
      else if (text[i] == '+')
        spec.sign = '+';
      else if (text[i] == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (text[i] == '0')
        spec.zero = true;
      else if (text[i] == '#')
        spec.alternate = true;
      else
        break;
    }
    const auto star = [&]() -> std::optional<int64_t> {
      if (i >= text.size() || text[i] != '*') return std::nullopt;
      ++i;
      const Value v = next();
      if (!v.is_int_like()) throw RenderError("* wants int");
      return std::clamp<int64_t>(v.as_int(), -kMaxWidth, kMaxWidth);
    };
    if (const auto width = star()) {
      if (*width < 0) spec.align = '<';
      spec.width = std::abs(*width);
    } else {
      spec.width = read_count(text, i, kMaxWidth, "width");
    }
    if (i < text.size() && text[i] == '.') {
      ++i;
      const auto precision = star();
      spec.precision = precision ? std::clamp<int64_t>(*precision, 0, kMaxPrecision)
                                 : read_count(text, i, kMaxPrecision, "precision");
    }
    if (i >= text.size()) throw RenderError("incomplete format");
    spec.type = text[i++];
    if (spec.type == '%') {
      out.append("%", Origin::kTemplate);
      continue;
    }
    const Value v = named ? *named : next();
    runtime.charge_bytes(static_cast<uint64_t>(spec.width) * 8);
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        spec.zero = false;
        if (spec.align == '\0') spec.align = '>';
        put_text(out, spec.type == 's' ? to_text(v) : repr(v), spec);
        break;
      }
      case 'd':
      case 'i':
      case 'u':
        require_defined(v);
        if (!v.is_number()) throw RenderError(str("%d format: a real number is required, not ", type_name(v)));
        spec.type = 'd';
        if (v.is(Kind::kFloat) && !(std::fabs(v.as_double()) < 9e18)) throw RenderError("%d format: number too large");
        put_integer(out, v.is(Kind::kFloat) ? static_cast<int64_t>(v.as_double()) : v.as_int(), spec);
        break;
      case 'x':
      case 'X':
      case 'o':
        if (!v.is_int_like())
          throw RenderError(str("%", spec.type, " format: an integer is required, not ", type_name(v)));
        put_integer(out, v.as_int(), spec);
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_defined(v);
        if (!v.is_number()) throw RenderError(str("must be real number, not ", type_name(v)));
        put_float(out, v.as_double(), spec);
        break;
      case 'c': {
        if (v.is_string() && length(v) == 1) {
          put_text(out, v.text(), spec);
        } else if (v.is_int_like() && v.as_int() >= 0 && v.as_int() <= 0x10FFFF) {
          std::string character;
          append_utf8(character, static_cast<uint32_t>(v.as_int()));
          put_text(out, Text(character, Origin::kTemplate), spec);
        } else {
          throw RenderError("%c requires int or char");
        }
        break;
      }
      default:
        throw RenderError(str("unsupported format character '", spec.type, "'"));
    }
  }
  if ((is_tuple && used < args.items().size()) || (!is_tuple && used == 0 && !args.is_dict() && !args.is_list())) {
    throw RenderError("not all arguments converted during string formatting");
  }
  runtime.charge_bytes(out.size());
  return Value::string(std::move(out), format.is_markup());
}

Value format_braces(Runtime& runtime, const Args& args) {
  const Text& source = args.positional.at(0).text();
  const std::string_view text = source.view();
  Text out;
  size_t next_automatic = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", i), text.size());
    out.append(source, i, brace);
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.append(source, brace, brace + 1);
      i = brace + 2;
      continue;
    }
    if (text[brace] == '}') throw RenderError("Single '}' encountered in format string");
    size_t end = brace + 1;
    for (int open = 1; open > 0; ++end) {
      if (end >= text.size()) throw RenderError("expected '}' before end of string");
      if (text[end] == '{') ++open;
      if (text[end] == '}') --open;
    }
    std::string_view field = text.substr(brace + 1, end - brace - 2);
    i = end;
    std::string spec;
    size_t colon = std::min(field.find(':'), field.size());
    if (colon < field.size()) spec = std::string(field.substr(colon + 1));
    std::string_view name = field.substr(0, colon);
    char conversion = '\0';
    if (const size_t bang = name.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size()) throw RenderError("format: expected one character after '!'");
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    Value v = field_value(name, args, next_automatic);
    if (conversion == 'r')
      v = Value::string(repr(v));
    else if (conversion == 's')
      v = Value::string(to_text(v));
    else if (conversion != '\0')
      throw RenderError(str("format: unknown conversion '", conversion, "'"));
    // One level of fields inside the specification.
    for (size_t open = spec.find('{'); open != std::string::npos; open = spec.find('{')) {
      const size_t close = spec.find('}', open);
      if (close == std::string::npos) throw RenderError("format: unmatched '{' in format spec");
      const Value inner = field_value(std::string_view(spec).substr(open + 1, close - open - 1), args, next_automatic);
      const std::string inner_text = to_text(inner).bytes();
      if (inner_text.find('{') != std::string::npos) throw RenderError("format: nested fields are too deep");
      spec = spec.substr(0, open) + inner_text + spec.substr(close + 1);
    }
    put_braces_field(out, v, spec);
    runtime.charge_bytes(out.size() / 16);
  }
  runtime.charge_bytes(out.size());
  return Value::string(std::move(out), args.positional[0].is_markup());
}

}  // namespace loci::jinja
