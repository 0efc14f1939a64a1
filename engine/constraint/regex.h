// Regular expressions (ECMA-262 without look-around and back references) to parts of a Grammar.
#pragma once
#include <string_view>

#include "engine/constraint/grammar.h"

namespace loci {

enum class RegexUse {
  kWholeText,   // the pattern describes the whole answer
  kJsonString,  // a JSON schema's `pattern`: matches anywhere unless anchored; produces the inside of a JSON string,
                // with escapes where JSON needs them
};

// Throws Error(kInvalidInput) "position 3: expected ..., found ..." (in bytes from 0), kUnsupported for what is a
// regular expression but no grammar: look-around, back references, word boundaries, anchors inside.
Grammar::Node add_regex(Grammar& grammar, std::string_view pattern, RegexUse use);

// The characters of a set as they stand inside a JSON string: plain, or escaped.
Grammar::Node json_chars(Grammar& grammar, const CharSet& set);
// A text as it stands inside a JSON string.
Grammar::Node json_text(Grammar& grammar, std::string_view text);

}  // namespace loci
