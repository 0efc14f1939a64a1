// Values as text: Python's str() and repr(), json.dumps, numbers. Marks of the strings inside are kept; the characters
// around them (quotes, brackets, commas) count as input as soon as any string inside is, so that one JSON document
// stays one piece.
#pragma once
#include <string>

#include "engine/text/jinja/runtime.h"
#include "engine/text/jinja/value.h"

namespace loci::jinja {

std::string float_repr(double x);  // shortest that reads back, as Python writes it
Text to_text(const Value& v);      // str(v); undefined gives ""
Text repr(const Value& v);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;  // of one level, when multiline
  std::string item_separator = ", ", key_separator = ": ";
};
Text to_json(const Value& v, const JsonStyle& style);

Text escape_html(const Text& text);

}  // namespace loci::jinja
