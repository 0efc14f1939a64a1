// Numbers between bounds as parts of a Grammar, digit by digit.
#pragma once
#include <cstdint>

#include "engine/constraint/grammar.h"

namespace loci {

// Largest |value| of add_number_range(): what doubles and JavaScript hold exactly.
constexpr int64_t kMaxRangeValue = 999'999'999'999'999;

// The decimal numbers k / 10^n_decimals for k from `low` to `high`, each with exactly n_decimals digits behind the
// point (none, and no point, with 0). No superfluous leading zeros and no "-0".
// REQUIRES: low <= high; both within +-kMaxRangeValue; 0 <= n_decimals <= 9.
Grammar::Node add_number_range(Grammar& grammar, int64_t low, int64_t high, int n_decimals);

// Whole numbers of at most kMaxMultipleDigits digits that `divisor` divides. REQUIRES: 1 <= divisor <= kMaxDivisor.
constexpr int64_t kMaxDivisor = 100;
constexpr int kMaxMultipleDigits = 12;
Grammar::Node add_multiples(Grammar& grammar, int64_t divisor);

}  // namespace loci
