// String operations that keep the marks of their text; shared by the methods of str and the filters.
#pragma once
#include <vector>

#include "engine/text/jinja/runtime.h"
#include "engine/text/jinja/text.h"

namespace loci::jinja {

Text upper(const Text& text);
Text lower(const Text& text);
Text capitalize(const Text& text);  // first code point upper, the rest lower
Text title(const Text& text);       // as str.title(): every run of letters
Text swap_case(const Text& text);

// Drops white space, or the code points in *chars, from the ends.
Text strip(const Text& text, const Text* chars, bool left, bool right);
// most < 0: no limit. REQUIRES: separator not empty.
std::vector<Text> split(Runtime& runtime, const Text& text, std::string_view separator, int64_t most, bool from_right);
std::vector<Text> split_on_space(const Text& text, int64_t most, bool from_right);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// count < 0: all. An empty `old` matches before every code point and at the end, as in Python.
Text replace(Runtime& runtime, const Text& text, std::string_view old, const Text& replacement, int64_t count);
// Fills up to `width` code points; align is '<', '>' or '^'.
Text pad_to(Runtime& runtime, const Text& text, int64_t width, const Text& fill, char align);

}  // namespace loci::jinja
