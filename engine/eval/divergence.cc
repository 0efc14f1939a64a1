#include "engine/eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "engine/eval/perplexity.h"
#include "kernels/check.h"

namespace loci {
namespace {

constexpr float kLeastLogProb = -16;  // less probable tokens of P are noise of its 16-bit codes

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Covariance of the two means.
double covariance(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2) return 0;
  const double mean_a = mean(a), mean_b = mean(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  const auto n = static_cast<double>(a.size());
  return sum / n / (n - 1);
}

MeanError ppl_of(std::span<const double> nll) {
  const double ppl = std::exp(mean(nll));
  return {ppl, ppl * std::sqrt(std::max(0.0, covariance(nll, nll)))};
}

}  // namespace

MeanError mean_error(std::span<const double> values) {
  return {mean(values), std::sqrt(std::max(0.0, covariance(values, values)))};
}

double percentile(std::span<const double> sorted, double fraction) {
  const double at = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = std::min(static_cast<size_t>(std::max(0.0, at)), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = at - static_cast<double>(below);
  return (1 - share) * sorted[below] + share * sorted[above];
}

void Divergence::add(std::span<const float> base_log_probs, std::span<const float> logits, int32_t target) {
  LOCI_CHECK(base_log_probs.size() == logits.size(), "vocabularies differ");
  const double lse = log_sum_exp(logits);
  const auto at = static_cast<size_t>(target);
  double kl = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = base_log_probs[i];
    if (log_p > kLeastLogProb) kl += std::exp(log_p) * (log_p - (logits[i] - lse));
  }
  kl_.push_back(kl);
  nll_.push_back(lse - logits[at]);
  base_nll_.push_back(-static_cast<double>(base_log_probs[at]));
  delta_p_.push_back(std::exp(logits[at] - lse) - std::exp(static_cast<double>(base_log_probs[at])));
  const auto top = [](std::span<const float> row) { return std::max_element(row.begin(), row.end()) - row.begin(); };
  n_same_top_ += top(base_log_probs) == top(logits) ? 1 : 0;
}

MeanError Divergence::ppl() const { return ppl_of(nll_); }
MeanError Divergence::base_ppl() const { return ppl_of(base_nll_); }

MeanError Divergence::log_ratio() const {
  const double variance = covariance(nll_, nll_) + covariance(base_nll_, base_nll_) - 2 * covariance(nll_, base_nll_);
  return {mean(nll_) - mean(base_nll_), std::sqrt(std::max(0.0, variance))};
}

MeanError Divergence::difference() const {
  const double q = ppl().mean, p = base_ppl().mean;
  const double variance = q * q * covariance(nll_, nll_) + p * p * covariance(base_nll_, base_nll_) -
                          2 * q * p * covariance(nll_, base_nll_);
  return {q - p, std::sqrt(std::max(0.0, variance))};
}

double Divergence::correlation() const {
  const double scale = std::sqrt(covariance(nll_, nll_) * covariance(base_nll_, base_nll_));
  return scale > 0 ? covariance(nll_, base_nll_) / scale : 1;
}

MeanError Divergence::rms_delta_p() const {
  std::vector<double> squares;
  for (const double d : delta_p_) squares.push_back(d * d);
  const MeanError square = mean_error(squares);
  const double rms = std::sqrt(square.mean);
  return {rms, rms > 0 ? square.error / (2 * rms) : 0};
}

MeanError Divergence::same_top() const {
  const auto n = static_cast<double>(count());
  const double share = n > 0 ? static_cast<double>(n_same_top_) / n : 0;
  return {share, n > 1 ? std::sqrt(share * (1 - share) / (n - 1)) : 0};
}

}  // namespace loci
