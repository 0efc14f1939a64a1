#include "engine/spec/rejection.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/check.h"

namespace loci {
namespace {

// Below this the residual is rounding: p and q agree, and p itself is what is left.
constexpr double kNothingLeft = 1e-10;

double sum(std::span<const double> v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

SiblingTrial::SiblingTrial(std::vector<double> p, std::vector<double> q, DraftRule rule)
    : rest_(std::move(p)), q_(std::move(q)), rule_(rule) {
  LOCI_CHECK(rule == DraftRule::kFixed || q_.size() == rest_.size(), "distributions of unequal length");
}

double SiblingTrial::acceptance(int32_t token) const {
  const auto i = static_cast<size_t>(token);
  if (rule_ == DraftRule::kFixed) return rest_[i];
  if (rest_[i] >= q_[i]) return rest_[i] > 0 ? 1 : 0;
  return rest_[i] / q_[i];
}

void SiblingTrial::reject(int32_t token) {
  const auto x = static_cast<size_t>(token);
  std::vector<double> next = rest_;
  if (rule_ == DraftRule::kFixed) {
    next[x] = 0;
  } else {
    for (size_t i = 0; i < next.size(); ++i) next[i] = std::max(next[i] - q_[i], 0.0);
  }
  if (const double left = sum(next); left > kNothingLeft) {
    for (double& v : next) v /= left;
    rest_ = std::move(next);
  }
  if (rule_ != DraftRule::kWithoutReplacement) return;
  q_[x] = 0;
  if (const double left = sum(q_); left > 0) {
    for (double& v : q_) v /= left;
  }
}

Choice choose_by_rejection(SiblingTrial trial, std::span<const int32_t> siblings, std::span<const double> accept_draws,
                           double rest_draw) {
  for (size_t s = 0; s < siblings.size(); ++s) {
    if (accept_draws[s] < trial.acceptance(siblings[s])) return {siblings[s], s};
    trial.reject(siblings[s]);
  }
  return {draw_weighted(trial.rest(), rest_draw), std::nullopt};
}

int32_t draw_weighted(std::span<const double> weights, double u) {
  const double target = u * sum(weights);
  double below = 0;
  int32_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) continue;
    last = static_cast<int32_t>(i);
    below += weights[i];
    if (target < below) break;
  }
  return last;  // rounding may leave u past the sum: the last token that has weight
}

}  // namespace loci
