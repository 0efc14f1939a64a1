// DRY, "don't repeat yourself" (Weidmann 2023): penalises the token that would go on with a repetition.
#include <algorithm>
#include <limits>

#include "engine/sampling/plain_math.h"
#include "engine/sampling/steps.h"

namespace loci {
namespace {

// Tokens between the newest one and the newest breaker: no repetition reaches across that.
size_t distance_to_breaker(std::span<const int32_t> window, const DryBreakers& breakers) {
  const size_t n = window.size();
  for (size_t back = 0; back < n; ++back) {  // back = 0 is the newest token
    const auto [begin, end] = breakers.sequences.equal_range(window[n - 1 - back]);
    std::optional<size_t> longest;
    for (auto it = begin; it != end; ++it) {
      const std::vector<int32_t>& tail = it->second;
      if (tail.size() > back || (longest && tail.size() <= *longest)) continue;
      if (std::equal(tail.begin(), tail.end(), window.begin() + static_cast<ptrdiff_t>(n - back)))
        longest = tail.size();
    }
    if (longest) return back - *longest;
  }
  return n;
}

}  // namespace

std::vector<std::pair<int32_t, float>> dry_penalties(std::span<const int32_t> window, const DryParams& params,
                                                     const DryBreakers& breakers) {
  std::vector<std::pair<int32_t, float>> penalties;
  const size_t n = window.size();
  const size_t allowed = static_cast<size_t>(std::max(params.allowed_length, 0));
  if (n <= allowed) return penalties;
  const size_t limit = distance_to_breaker(window, breakers);
  if (limit < allowed) return penalties;

  // matched[k]: length of the longest common suffix of the window and the window without its last k tokens. This is
  // the Z function of the window read backwards (Gusfield 1997).
  std::vector<size_t> matched(n, 0);
  const auto reversed = [&](size_t i) { return window[n - 1 - i]; };
  for (size_t k = 1, left = 0, right = 0; k < n; ++k) {
    size_t length = k < right ? std::min(right - k, matched[k - left]) : 0;
    while (k + length < n && reversed(length) == reversed(k + length)) ++length;
    matched[k] = length;
    if (k + length > right) left = k, right = k + length;
  }

  // The token that followed an earlier copy of the suffix would make the repetition one longer.
  std::unordered_map<int32_t, size_t> longest;
  for (size_t k = 1; k < n; ++k) {
    const size_t length = std::min(matched[k], limit);
    if (length < allowed || length == 0) continue;
    size_t& best = longest[reversed(k - 1)];
    best = std::max(best, length);
  }
  const double log_base = plain::log(params.base);
  for (const auto& [token, length] : longest) {
    const double log_power = log_base * static_cast<double>(length - allowed);
    const double penalty =
        params.multiplier * plain::exp(std::min(log_power, 88.0));  // e^88 is near the greatest float
    penalties.emplace_back(token, static_cast<float>(std::min<double>(penalty, std::numeric_limits<float>::max())));
  }
  std::sort(penalties.begin(), penalties.end());
  return penalties;
}

}  // namespace loci
