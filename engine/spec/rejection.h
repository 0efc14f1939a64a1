// Strict rejection sampling of drafts (Leviathan et al. 2023; Chen et al. 2023; trees: Miao et al. 2024, SpecInfer;
// Jeon et al. 2024, RSD): whatever the drafter draws from, the chosen tokens are distributed as the target says.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace loci {

// How the siblings of one place were made.
enum class DraftRule {
  kIndependent,         // each drawn from q, duplicates possible
  kWithoutReplacement,  // drawn from q less the siblings before, renormalized
  kFixed,               // not drawn: the most probable ones, an n-gram's continuation
};

// The trial of one place's siblings, one after the other in the order in which they were drawn.
class SiblingTrial {
 public:
  // p: the target's distribution; q: the one that siblings were drawn from (not read for kFixed). Of one length, each
  // sums to 1 up to rounding.
  SiblingTrial(std::vector<double> p, std::vector<double> q, DraftRule rule);

  // Probability with which this sibling is to be accepted now.
  double acceptance(int32_t token) const;
  // It was not. A duplicate of a rejected sibling is rejected too, and changes the rest like any other.
  void reject(int32_t token);
  // What the token is drawn from when all siblings were rejected.
  std::span<const double> rest() const { return rest_; }

 private:
  std::vector<double> rest_, q_;
  DraftRule rule_;
};

struct Choice {
  int32_t token = -1;
  std::optional<size_t> sibling;  // index of the accepted sibling; none: drawn from the rest
};

// Chooses one place's token. accept_draws: [n_siblings], and one more draw for the rest, all uniform in [0, 1) and
// independent of each other and of the drafter's.
Choice choose_by_rejection(SiblingTrial trial, std::span<const int32_t> siblings, std::span<const double> accept_draws,
                           double rest_draw);

// A token by its share of `weights` (any non-negative sum > 0), at u in [0, 1).
int32_t draw_weighted(std::span<const double> weights, double u);

}  // namespace loci
