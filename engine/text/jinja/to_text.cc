#include "engine/text/jinja/to_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>

#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

bool holds_input(const Value& v) {
  switch (v.kind()) {
    case Kind::kString:
      return v.text().has_input();
    case Kind::kSequence:
      return std::any_of(v.items().begin(), v.items().end(), holds_input);
    case Kind::kDict:
      return std::any_of(v.as_dict().items.begin(), v.as_dict().items.end(),
                         [](const auto& item) { return holds_input(item.first) || holds_input(item.second); });
    default:
      return false;
  }
}

Origin structure_origin(const Value& v) { return holds_input(v) ? Origin::kInput : Origin::kTemplate; }

std::string hex(uint32_t value, int digits) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "%0*x", digits, value);
  return buffer;
}

// A string literal of Python.
void repr_string(const Text& text, Origin structure, Text& out) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append(std::string_view(&quote, 1), structure);
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string escaped;
    for (size_t i = 0; i < run.size();) {
      const CodePoint c = decode_at(run, i);
      if (c.value == static_cast<uint32_t>(quote) || c.value == '\\') {
        escaped += '\\';
        escaped += static_cast<char>(c.value);
      } else if (c.value == '\n') {
        escaped += "\\n";
      } else if (c.value == '\r') {
        escaped += "\\r";
      } else if (c.value == '\t') {
        escaped += "\\t";
      } else if (is_printable(c.value)) {
        escaped += run.substr(i, c.size);
      } else if (c.value < 0x100) {
        escaped += "\\x" + hex(c.value, 2);
      } else if (c.value < 0x10000) {
        escaped += "\\u" + hex(c.value, 4);
      } else {
        escaped += "\\U" + hex(c.value, 8);
      }
      i += c.size;
    }
    out.append(escaped, origin);
  });
  out.append(std::string_view(&quote, 1), structure);
}

class ReprWriter {
 public:
  explicit ReprWriter(Origin structure) : structure_(structure) {}

  void write(const Value& v) {
    if (++depth_ > static_cast<int>(kMaxDepth)) throw RenderError("a value holds itself");
    switch (v.kind()) {
      case Kind::kUndefined:
        put("Undefined");
        break;
      case Kind::kNone:
        put("None");
        break;
      case Kind::kBool:
        put(v.as_bool() ? "True" : "False");
        break;
      case Kind::kInt:
        put(std::to_string(v.as_int()));
        break;
      case Kind::kFloat:
        put(float_repr(v.as_double()));
        break;
      case Kind::kString:
        if (v.is_markup()) put("Markup(");
        repr_string(v.text(), structure_, out);
        if (v.is_markup()) put(")");
        break;
      case Kind::kSequence:
        sequence(v);
        break;
      case Kind::kDict:
        pairs(v.as_dict().items);
        break;
      case Kind::kIterator:
        put(str("<", v.as_iterator().type_name, " object>"));
        break;
      case Kind::kNamespace: {
        put("<Namespace ");
        std::vector<std::pair<Value, Value>> fields;
        for (const auto& [name, value] : v.as_namespace().fields) fields.emplace_back(Value::string(name), value);
        pairs(fields);
        put(">");
        break;
      }
      case Kind::kCallable:
        put(v.as_callable().repr());
        break;
    }
    --depth_;
  }

  Text out;

 private:
  void put(std::string_view text) { out.append(text, structure_); }

  void pairs(const std::vector<std::pair<Value, Value>>& items) {
    put("{");
    bool first = true;
    for (const auto& [key, value] : items) {
      if (!first) put(", ");
      first = false;
      write(key);
      put(": ");
      write(value);
    }
    put("}");
  }

  void sequence(const Value& v) {
    const SequenceKind kind = v.sequence_kind();
    const auto& items = v.items();
    if (kind == SequenceKind::kRange) {
      const int64_t start = items.empty() ? 0 : items.front().as_int();
      const int64_t step = items.size() > 1 ? items[1].as_int() - start : 1;
      put(str("range(", start, ", ", start + step * static_cast<int64_t>(items.size())));
      put(step == 1 ? ")" : str(", ", step, ")"));
      return;
    }
    const bool is_tuple = kind == SequenceKind::kTuple, is_list = kind == SequenceKind::kList;
    if (!is_tuple && !is_list) put(str(type_name(v), "("));
    put(is_tuple ? "(" : "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(", ");
      write(items[i]);
    }
    put(!is_tuple ? "]" : items.size() == 1 ? ",)" : ")");
    if (!is_tuple && !is_list) put(")");
  }

  Origin structure_;
  int depth_ = 0;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Origin structure) : style_(style), structure_(structure) {}

  void write(const Value& v) {
    switch (v.kind()) {
      case Kind::kNone:
        return put("null");
      case Kind::kBool:
        return put(v.as_bool() ? "true" : "false");
      case Kind::kInt:
        return put(std::to_string(v.as_int()));
      case Kind::kFloat:
        return put(number(v.as_double()));
      case Kind::kString:
        return string(v.text());
      case Kind::kSequence:
        if (v.is_list() || v.sequence_kind() == SequenceKind::kTuple) return list(v.items());
        break;
      case Kind::kDict:
        return object(v.as_dict());
      default:
        break;
    }
    throw RenderError(str("Object of type ", type_name(v), " is not JSON serializable"));
  }

  Text out;

 private:
  void put(std::string_view text) { out.append(text, structure_); }

  static std::string number(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
    return float_repr(x);
  }

  void string(const Text& text) {
    put("\"");
    text.for_each_run([&](std::string_view run, Origin origin) {
      std::string escaped;
      for (size_t i = 0; i < run.size();) {
        const auto byte = static_cast<uint8_t>(run[i]);
        if (byte >= 0x80 && style_.ensure_ascii) {
          const CodePoint c = decode_at(run, i);
          if (c.value >= 0x10000) {
            escaped += "\\u" + hex(0xD800 + ((c.value - 0x10000) >> 10), 4);
            escaped += "\\u" + hex(0xDC00 + (c.value & 0x3FF), 4);
          } else {
            escaped += "\\u" + hex(c.value, 4);
          }
          i += c.size;
          continue;
        }
        switch (byte) {
          case '"':
            escaped += "\\\"";
            break;
          case '\\':
            escaped += "\\\\";
            break;
          case '\n':
            escaped += "\\n";
            break;
          case '\r':
            escaped += "\\r";
            break;
          case '\t':
            escaped += "\\t";
            break;
          case '\b':
            escaped += "\\b";
            break;
          case '\f':
            escaped += "\\f";
            break;
          default:
            if (byte < 0x20)
              escaped += "\\u" + hex(byte, 4);
            else if (byte == 0x7F && style_.ensure_ascii)
              escaped += '\x7F';
            else
              escaped += run[i];
        }
        ++i;
      }
      out.append(escaped, origin);
    });
    put("\"");
  }

  void new_line() {
    if (!style_.multiline) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(style_.indent);
  }

  void list(const std::vector<Value>& items) {
    if (items.empty()) return put("[]");
    put("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    put("]");
  }

  static Text key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.text();
      case Kind::kNone:
        return Text("null", Origin::kTemplate);
      case Kind::kBool:
        return Text(key.as_bool() ? "true" : "false", Origin::kTemplate);
      case Kind::kInt:
        return Text(std::to_string(key.as_int()), Origin::kTemplate);
      case Kind::kFloat:
        return Text(number(key.as_double()), Origin::kTemplate);
      default:
        throw RenderError(str("keys must be str, int, float, bool or None, not ", type_name(key)));
    }
  }

  void object(const Dict& dict) {
    if (dict.items.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return compare(a->first, b->first) < 0; });
    }
    put("{");
    ++level_;
    bool first = true;
    for (const auto* item : items) {
      if (!first) put(style_.item_separator);
      first = false;
      new_line();
      string(key_text(item->first));
      put(style_.key_separator);
      write(item->second);
    }
    --level_;
    new_line();
    put("}");
  }

  const JsonStyle& style_;
  Origin structure_;
  int level_ = 0;
};

}  // namespace

std::string float_repr(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
  const std::string scientific(buffer, result.ptr);  // d.ddde+XX
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) {
    char tail[16];
    std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return scientific.substr(0, e) + tail;
  }
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

Text to_text(const Value& v) {
  if (v.is_string()) return v.text();
  if (v.is_undefined()) return Text();
  return repr(v);
}

Text repr(const Value& v) {
  ReprWriter writer(structure_origin(v));
  writer.write(v);
  return std::move(writer.out);
}

Text to_json(const Value& v, const JsonStyle& style) {
  JsonWriter writer(style, structure_origin(v));
  writer.write(v);
  return std::move(writer.out);
}

Text escape_html(const Text& text) {
  Text out;
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string escaped;
    for (const char c : run) {
      switch (c) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        default:
          escaped += c;
      }
    }
    out.append(escaped, origin);
  });
  return out;
}

}  // namespace loci::jinja
