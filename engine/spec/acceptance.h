// Acceptance: how often a drafter's drafts turn out right, by what the drafter thought of them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace loci {

// Counts by confidence. Old outcomes fade, so that a change of text is noticed.
class Acceptance {
 public:
  // fade: what an outcome keeps of its weight with each later one of its bin.
  explicit Acceptance(double fade) : fade_(fade) {}

  void observe(float confidence, bool accepted);
  // Probability that a draft is right. `prior` is believed like `weight` outcomes.
  double estimate(float confidence, double prior, double weight) const;
  double n() const { return all_.n; }  // outcomes, faded
  // The same over all drafts, whatever their confidence.
  double mean(double prior, double weight) const;

 private:
  struct Bin {
    double n = 0, right = 0;
  };
  static constexpr size_t kBins = 20;
  static size_t bin_of(float confidence);
  static void add(Bin& bin, double fade, bool accepted);
  static double estimate(const Bin& bin, double prior, double weight);

  double fade_;
  std::array<Bin, kBins> bins_{};
  Bin all_;
};

}  // namespace loci
