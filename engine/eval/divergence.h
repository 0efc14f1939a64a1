// How far the distributions of one model (Q) lie from those of a base model (P), token by token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace loci {

struct MeanError {
  double mean = 0, error = 0;  // one standard error
};
// Mean of `values` and its standard error.
MeanError mean_error(std::span<const double> values);
// Value below which `fraction` of the values lie, interpolated. REQUIRES: sorted, not empty.
double percentile(std::span<const double> sorted, double fraction);

class Divergence {
 public:
  // `base_log_probs`: log P; `logits`: Q before softmax; `target`: the token that came.
  void add(std::span<const float> base_log_probs, std::span<const float> logits, int32_t target);

  int64_t count() const { return static_cast<int64_t>(kl_.size()); }
  std::span<const double> kl() const { return kl_; }            // KL(P || Q) over tokens with log P > -16
  std::span<const double> delta_p() const { return delta_p_; }  // Q(target) - P(target)
  MeanError ppl() const;                                        // of Q
  MeanError base_ppl() const;
  MeanError log_ratio() const;   // ln(PPL(Q) / PPL(P))
  MeanError difference() const;  // PPL(Q) - PPL(P)
  double correlation() const;    // of the two negative log-likelihoods
  MeanError rms_delta_p() const;
  MeanError same_top() const;  // share of positions where both have the same most probable token

 private:
  std::vector<double> nll_, base_nll_, kl_, delta_p_;
  int64_t n_same_top_ = 0;
};

}  // namespace loci
