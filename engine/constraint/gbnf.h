// GBNF, llama.cpp's grammar notation, to a Grammar. What it has and where it differs: docs/structured-output.md.
#pragma once
#include <string_view>

#include "engine/constraint/grammar.h"

namespace loci {

// The start rule is `root`. The result is checked. Throws Error(kInvalidInput) "grammar: line 3, column 5: expected
// ..., found ..." for what cannot be read, and naming the rule for what Grammar::check() finds.
Grammar parse_gbnf(std::string_view text);

}  // namespace loci
