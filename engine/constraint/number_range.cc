#include "engine/constraint/number_range.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/error.h"

namespace loci {
namespace {

// Digit strings of one length between two of that length.
class DigitRange {
 public:
  DigitRange(Grammar& grammar, size_t point) : grammar_(grammar), point_(point) {}

  // `at`: digits that stand before. low and high are the rest, of equal length.
  Grammar::Node between(std::string_view low, std::string_view high, size_t at) {
    if (low.empty()) return grammar_.empty();
    const size_t rest = low.size() - 1;
    const bool low_is_least = low.substr(1).find_first_not_of('0') == std::string_view::npos;
    const bool high_is_most = high.substr(1).find_first_not_of('9') == std::string_view::npos;
    if (low[0] == high[0]) {
      if (low_is_least && high_is_most) return grammar_.sequence({digit(low[0], high[0], at), any(rest, at + 1)});
      return grammar_.sequence({digit(low[0], low[0], at), between(low.substr(1), high.substr(1), at + 1)});
    }
    std::vector<Grammar::Node> options;
    char first = low[0], last = high[0];
    if (!low_is_least) {
      options.push_back(
          grammar_.sequence({digit(first, first, at), between(low.substr(1), std::string(rest, '9'), at + 1)}));
      ++first;
    }
    if (!high_is_most) {
      options.push_back(
          grammar_.sequence({digit(last, last, at), between(std::string(rest, '0'), high.substr(1), at + 1)}));
      --last;
    }
    if (first <= last) options.push_back(grammar_.sequence({digit(first, last, at), any(rest, at + 1)}));
    return grammar_.choice(std::move(options));
  }

 private:
  Grammar::Node digit(char first, char last, size_t at) {
    const Grammar::Node node = grammar_.chars({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}});
    return at == point_ && at > 0 ? grammar_.sequence({grammar_.text("."), node}) : node;
  }
  Grammar::Node any(size_t n, size_t at) {
    std::vector<Grammar::Node> digits;
    for (size_t i = 0; i < n; ++i) digits.push_back(digit('0', '9', at + i));
    return grammar_.sequence(std::move(digits));
  }

  Grammar& grammar_;
  size_t point_;  // digits before the point; 0: no point
};

// 0 <= low <= high.
void add_non_negative(Grammar& grammar, int64_t low, int64_t high, int n_decimals, const char* sign,
                      std::vector<Grammar::Node>& options) {
  const auto least = static_cast<size_t>(n_decimals) + 1;
  const auto padded = [least](int64_t value) {
    std::string text = std::to_string(value);
    return text.size() < least ? std::string(least - text.size(), '0') + text : text;
  };
  const std::string first = padded(low), last = padded(high);
  for (size_t length = first.size(); length <= last.size(); ++length) {
    const std::string from = length == first.size() ? first : "1" + std::string(length - 1, '0');
    const std::string to = length == last.size() ? last : std::string(length, '9');
    const size_t point = n_decimals == 0 ? 0 : length - static_cast<size_t>(n_decimals);
    const Grammar::Node digits = DigitRange(grammar, point).between(from, to, 0);
    options.push_back(*sign == '\0' ? digits : grammar.sequence({grammar.text(sign), digits}));
  }
}

}  // namespace

Grammar::Node add_number_range(Grammar& grammar, int64_t low, int64_t high, int n_decimals) {
  LOCI_CHECK(low <= high && low >= -kMaxRangeValue && high <= kMaxRangeValue && n_decimals >= 0 && n_decimals <= 9,
             "number range from ", low, " to ", high, " with ", n_decimals, " decimals");
  std::vector<Grammar::Node> options;
  if (low < 0) add_non_negative(grammar, std::max<int64_t>(1, -high), -low, n_decimals, "-", options);
  if (high >= 0) add_non_negative(grammar, std::max<int64_t>(0, low), high, n_decimals, "", options);
  return grammar.choice(std::move(options));
}

Grammar::Node add_multiples(Grammar& grammar, int64_t divisor) {
  LOCI_CHECK(divisor >= 1 && divisor <= kMaxDivisor, "multiples of ", divisor);
  const auto n = static_cast<size_t>(divisor);
  // rest[r]: the digits that may follow a number of remainder r; nullopt: none of those left lead to remainder 0.
  std::vector<std::optional<Grammar::Node>> rest(n);
  rest[0] = grammar.empty();
  const auto digits_from = [&](size_t remainder, size_t first_digit) {
    std::vector<Grammar::Node> options;
    for (size_t digit = first_digit; digit <= 9; ++digit) {
      const std::optional<Grammar::Node>& next = rest[(remainder * 10 + digit) % n];
      if (next) options.push_back(grammar.sequence({grammar.text(std::to_string(digit)), *next}));
    }
    return options;
  };
  for (int left = 1; left < kMaxMultipleDigits; ++left) {
    std::vector<std::optional<Grammar::Node>> longer(n);
    for (size_t remainder = 0; remainder < n; ++remainder) {
      std::vector<Grammar::Node> options = digits_from(remainder, 0);
      if (remainder == 0) options.push_back(grammar.empty());
      if (options.empty()) continue;
      const std::string name = str("remainder ", remainder, " of ", divisor);
      longer[remainder] = grammar.reference(grammar.add_rule(name, grammar.choice(std::move(options))));
    }
    rest = std::move(longer);
  }
  const Grammar::Node positive = grammar.choice(digits_from(0, 1));
  return grammar.choice({grammar.text("0"), grammar.sequence({grammar.optional(grammar.text("-")), positive})});
}

}  // namespace loci
