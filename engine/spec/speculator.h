// Speculator: which drafts each sequence brings to the next step. Chooses the drafter and the number of drafts that
// promise the most tokens per second, from how drafts fared and what passes cost; so it may use the clock: outputs do
// not depend on drafts. Rules: docs/speculation.md.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/spec/acceptance.h"
#include "engine/spec/cost_curve.h"
#include "engine/spec/drafter.h"

namespace loci {

class Speculator {
 public:
  explicit Speculator(std::vector<std::unique_ptr<Drafter>> drafters);

  // Whether some drafter does.
  bool serves(SpeculationMode mode) const;

  // A sequence that may bring drafts; all fields but `tree` as in DraftJob.
  struct Candidate {
    DraftJob job;
    int64_t tokens_left = 0;  // most tokens that it may still produce
    int64_t n_predicted = 0;
  };
  // Fills the trees. n_rows: rows of the next step without drafts, one for each candidate included.
  void plan(std::span<Candidate> candidates, int64_t n_rows);
  // What became of a step's drafts: `node` is the last accepted one (-1: none). `next` is the token behind it.
  void note_outcome(int64_t key, const DraftTree& tree, int32_t node, int32_t next);
  // A step of `rows` rows whose logits were all wanted took `ms`, drafting apart.
  void note_step(int64_t rows, double ms) { step_cost_.observe(rows, ms); }
  // Whether the sequence wants to hear how certain the target is: while a costly drafter has little experience with it.
  bool wants_certainty(int64_t key, const Speculation& params) const;
  // certainty: probability of the target's likeliest token, in 0..1, at one place of the sequence.
  void note_certainty(int64_t key, float certainty);
  void page_copied(int32_t src, int32_t dst);
  void forget(int64_t key, std::span<const int32_t> tokens);
  const SpeculationStats& stats(int64_t key) { return state_of(key).stats; }

 private:
  // What is known of a sequence.
  struct State {
    std::vector<Acceptance> own;  // per drafter
    SpeculationStats stats;
    double certainty = 0, n_certainty = 0;  // sum and number, faded
    int drafter = -1;                       // of the drafts in flight
    // A free drafter's draft that was not worth a row is judged all the same.
    int32_t shadow_token = -1;
    float shadow_confidence = 0;
    int shadow_drafter = -1;
  };
  // The step in the making: expected tokens, rows, time spent on drafting.
  struct Outlook {
    double tokens = 0;
    int64_t rows = 0;
    double draft_ms = 0;
  };
  struct Cut {
    std::vector<int32_t> nodes{};  // worth their rows, ascending
    double gain = 0;               // expected tokens
    double rate = 0;               // tokens per ms with them
  };

  double rate(const Outlook& outlook) const;
  double acceptance(const State& state, size_t drafter, float confidence) const;
  double mean_acceptance(const State& state, size_t drafter) const;
  double certainty(const State& state) const;
  std::vector<double> reach(const State& state, size_t drafter, const DraftTree& tree) const;
  Cut best_cut(const Outlook& outlook, const State& state, size_t drafter, const DraftTree& tree, int max_nodes) const;
  double promised_rate(const Outlook& outlook, const Candidate& candidate, const State& state, size_t drafter) const;
  bool one_more_pays(const Outlook& outlook, const State& state, size_t drafter, const DraftTree& tree) const;
  State& state_of(int64_t key);
  void propose_free(Candidate& candidate, State& state, const Outlook& outlook, Cut& best, double& best_rate);
  void propose_costly(size_t drafter, std::span<Candidate* const> chosen, Outlook& outlook);

  std::vector<std::unique_ptr<Drafter>> drafters_;
  std::vector<Acceptance> all_;            // per drafter, over all sequences
  std::vector<int64_t> tokens_since_use_;  // per drafter
  // Over costly drafters: drafts that were wrong, and 1 - certainty of the sequences they were made for; faded.
  double n_wrong_, doubt_;
  CostCurve step_cost_;
  std::map<int64_t, State> sequences_;
};

}  // namespace loci
