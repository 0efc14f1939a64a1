#include "engine/spec/acceptance.h"

#include <algorithm>
#include <cmath>

namespace loci {

// Half-octaves of the odds, from 1:4 to 180:1.
size_t Acceptance::bin_of(float confidence) {
  const double c = std::clamp(static_cast<double>(confidence), 1e-4, 1 - 1e-4);
  const double bin = std::floor(2 * std::log2(c / (1 - c))) + 4;
  return static_cast<size_t>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)));
}

void Acceptance::add(Bin& bin, double fade, bool accepted) {
  bin.n = bin.n * fade + 1;
  bin.right = bin.right * fade + (accepted ? 1 : 0);
}

double Acceptance::estimate(const Bin& bin, double prior, double weight) {
  return (bin.right + prior * weight) / (bin.n + weight);
}

void Acceptance::observe(float confidence, bool accepted) {
  add(bins_[bin_of(confidence)], fade_, accepted);
  add(all_, fade_, accepted);
}

double Acceptance::estimate(float confidence, double prior, double weight) const {
  return estimate(bins_[bin_of(confidence)], prior, weight);
}

double Acceptance::mean(double prior, double weight) const { return estimate(all_, prior, weight); }

}  // namespace loci
