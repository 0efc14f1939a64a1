#include "engine/spec/speculator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "kernels/check.h"

namespace loci {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kOwnFade = 0.98, kAllFade = 0.999;
constexpr double kPriorMean = 0.7;       // acceptance of a drafter that has not been tried
constexpr double kPriorWeight = 4;       // outcomes that a prior counts for
constexpr double kOptimism = 0.08;       // a sequence that has not tried a drafter yet expects that much more of it
constexpr double kOptimismOutcomes = 8;  // and half of it after that many outcomes
// What two models both know, one is certain of: of a costly drafter that is new to a sequence, a share of wrong drafts
// is expected that is proportional to the target's own doubt, 1 - the probability of its likeliest token.
constexpr double kCertaintyFade = 0.95;
constexpr double kPriorCertainty = 0.75, kPriorCertaintyWeight = 4;
constexpr double kPriorDoubt = 3, kPriorWrong = 1.2 * kPriorDoubt;  // wrong drafts per doubt, until it has been seen
constexpr double kEnoughOutcomes = 24;  // of its own, then the target's certainty is no longer asked for
constexpr double kWorthwhile = 1.02;    // a costly drafter is begun for at least this much more speed
constexpr double kLeastRemaining = 64;  // tokens that an answer is expected to go on for, or for as many as it has
constexpr int64_t kProbeTokens = 4096;  // a costly drafter without use for so many tokens is tried again
constexpr int kLookAhead = 4;           // drafts that one more draft may open the way for
// Cost of a further row of the target, before it has been measured: low, so that it will be.
constexpr double kStepSlope = 0.1;

}  // namespace

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters)
    : drafters_(std::move(drafters)),
      all_(drafters_.size(), Acceptance(kAllFade)),
      tokens_since_use_(drafters_.size(), 0),
      n_wrong_(kPriorWrong),
      doubt_(kPriorDoubt),
      step_cost_(kStepSlope) {}

bool Speculator::serves(SpeculationMode mode) const {
  return std::any_of(drafters_.begin(), drafters_.end(), [&](const auto& d) { return d->serves(mode); });
}

Speculator::State& Speculator::state_of(int64_t key) {
  State& state = sequences_[key];
  if (state.own.empty()) state.own.assign(drafters_.size(), Acceptance(kOwnFade));
  return state;
}

double Speculator::rate(const Outlook& outlook) const {
  return outlook.tokens / (step_cost_.ms(outlook.rows) + outlook.draft_ms);
}

double Speculator::acceptance(const State& state, size_t drafter, float confidence) const {
  const double prior = all_[drafter].estimate(confidence, confidence, kPriorWeight);
  return state.own[drafter].estimate(confidence, prior, kPriorWeight);
}

double Speculator::mean_acceptance(const State& state, size_t drafter) const {
  const Acceptance& own = state.own[drafter];
  if (!drafters_[drafter]->is_free()) {
    const double wrong = n_wrong_ / doubt_ * (1 - certainty(state));
    return own.mean(std::clamp(1 - wrong, 0.0, 1.0), kPriorWeight);
  }
  const double mean = own.mean(all_[drafter].mean(kPriorMean, kPriorWeight), kPriorWeight);
  return std::min(mean + kOptimism / (1 + own.n() / kOptimismOutcomes), 1.0);
}

double Speculator::certainty(const State& state) const {
  return (state.certainty + kPriorCertainty * kPriorCertaintyWeight) / (state.n_certainty + kPriorCertaintyWeight);
}

bool Speculator::wants_certainty(int64_t key, const Speculation& params) const {
  const auto found = sequences_.find(key);
  if (found == sequences_.end() || !params.adaptive) return false;
  for (size_t d = 0; d < drafters_.size(); ++d) {
    if (drafters_[d]->is_free() || !drafters_[d]->serves(params.mode)) continue;
    if (found->second.own[d].n() < kEnoughOutcomes) return true;
  }
  return false;
}

void Speculator::note_certainty(int64_t key, float certainty) {
  State& state = state_of(key);
  state.certainty = state.certainty * kCertaintyFade + std::clamp<double>(certainty, 0, 1);
  state.n_certainty = state.n_certainty * kCertaintyFade + 1;
}

// Per node: probability that it is accepted.
std::vector<double> Speculator::reach(const State& state, size_t drafter, const DraftTree& tree) const {
  std::vector<double> reach;
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    const int32_t parent = tree.parents[i];
    const double before = parent < 0 ? 1.0 : reach[static_cast<size_t>(parent)];
    reach.push_back(before * acceptance(state, drafter, tree.confidence[i]));
  }
  return reach;
}

// The likeliest nodes, as many as make the best rate. A child is never likelier than its parent, so that parents come
// first.
Speculator::Cut Speculator::best_cut(const Outlook& outlook, const State& state, size_t drafter, const DraftTree& tree,
                                     int max_nodes) const {
  const std::vector<double> probability = reach(state, drafter, tree);
  std::vector<int32_t> order(probability.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return probability[static_cast<size_t>(a)] > probability[static_cast<size_t>(b)];
  });
  Cut best{.rate = rate(outlook)};
  Outlook with = outlook;
  const size_t n = std::min(order.size(), static_cast<size_t>(std::max(max_nodes, 0)));
  size_t n_best = 0;
  for (size_t i = 0; i < n; ++i) {
    with.tokens += probability[static_cast<size_t>(order[i])];
    ++with.rows;
    const double r = rate(with);
    if (r <= best.rate) continue;
    best.rate = r;
    best.gain = with.tokens - outlook.tokens;
    n_best = i + 1;
  }
  best.nodes.assign(order.begin(), order.begin() + static_cast<ptrdiff_t>(n_best));
  std::sort(best.nodes.begin(), best.nodes.end());
  return best;
}

// Tokens per ms that a costly drafter promises for this sequence; 0 when what it must catch up on eats the gain.
double Speculator::promised_rate(const Outlook& outlook, const Candidate& candidate, const State& state,
                                 size_t drafter) const {
  const double accepted = mean_acceptance(state, drafter), next_ms = drafters_[drafter]->next_draft_ms();
  const int depth = std::min(candidate.job.max_depth, candidate.job.params->max_tokens);
  const double plain = rate(outlook);
  double best = 0, reach = 1;
  Outlook with = outlook;
  for (int k = 1; k <= depth; ++k) {
    reach *= accepted;
    with.tokens += reach;
    ++with.rows;
    with.draft_ms += next_ms;
    best = std::max(best, rate(with));
  }
  if (best <= plain * kWorthwhile) return 0;
  const double remaining = std::min(static_cast<double>(candidate.tokens_left),
                                    std::max(kLeastRemaining, static_cast<double>(candidate.n_predicted)));
  const double saved_ms = remaining * outlook.tokens * (1 / plain - 1 / best);
  const double catch_up_ms = drafters_[drafter]->first_draft_ms(candidate.job) - next_ms;
  return saved_ms > catch_up_ms ? best : 0;
}

// Whether drafting goes on behind a chain whose last draft is the tree's last node.
bool Speculator::one_more_pays(const Outlook& outlook, const State& state, size_t drafter,
                               const DraftTree& tree) const {
  const std::vector<double> so_far = reach(state, drafter, tree);
  Outlook with = outlook;
  with.tokens += std::accumulate(so_far.begin(), so_far.end(), 0.0);
  with.rows += tree.size();
  const double now = rate(with), accepted = mean_acceptance(state, drafter);
  double reach = so_far.empty() ? 1.0 : so_far.back();
  for (int i = 0; i < kLookAhead; ++i) {
    reach *= accepted;
    with.tokens += reach;
    ++with.rows;
    with.draft_ms += drafters_[drafter]->next_draft_ms();
    if (rate(with) > now) return true;
  }
  return false;
}

// Lets the free drafters draft. Leaves the best tree in the job and what is worth running of it in `best`.
void Speculator::propose_free(Candidate& candidate, State& state, const Outlook& outlook, Cut& best,
                              double& best_rate) {
  const Speculation& params = *candidate.job.params;
  DraftTree chosen;
  for (size_t d = 0; d < drafters_.size(); ++d) {
    if (!drafters_[d]->is_free() || !drafters_[d]->serves(params.mode)) continue;
    candidate.job.tree.clear();
    DraftJob* job = &candidate.job;
    drafters_[d]->propose(std::span(&job, 1));
    if (job->tree.empty()) continue;
    if (state.shadow_drafter < 0) {
      state.shadow_drafter = static_cast<int>(d);
      state.shadow_token = job->tree.tokens.front();
      state.shadow_confidence = job->tree.confidence.front();
    }
    if (!params.adaptive) {
      if (state.drafter >= 0) continue;
      job->tree.truncate(std::min(job->tree.size(), params.max_tokens));
      best.nodes.resize(static_cast<size_t>(job->tree.size()));
      std::iota(best.nodes.begin(), best.nodes.end(), 0);
    } else {
      if (!step_cost_.known()) continue;
      Cut cut = best_cut(outlook, state, d, job->tree, params.max_tokens);
      if (cut.nodes.empty() || cut.rate <= best_rate) continue;
      best_rate = cut.rate;
      best = std::move(cut);
    }
    state.drafter = static_cast<int>(d);
    chosen = job->tree;
  }
  candidate.job.tree = std::move(chosen);
}

// Lets a drafter draft for all the sequences that chose it.
void Speculator::propose_costly(size_t drafter, std::span<Candidate* const> chosen, Outlook& outlook) {
  std::vector<DraftJob*> jobs;
  for (Candidate* candidate : chosen) {
    DraftJob& job = candidate->job;
    job.max_depth = std::min(job.max_depth, job.params->max_tokens);
    const State& state = state_of(job.key);
    job.go_on = [this, &state, drafter, outlook, adaptive = job.params->adaptive](const DraftTree& tree) {
      return !adaptive || one_more_pays(outlook, state, drafter, tree);
    };
    jobs.push_back(&job);
  }
  const Clock::time_point start = Clock::now();
  drafters_[drafter]->propose(jobs);
  outlook.draft_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  tokens_since_use_[drafter] = 0;
  for (DraftJob* job : jobs) {
    const Speculation& params = *job->params;
    State& state = state_of(job->key);
    state.drafter = static_cast<int>(drafter);
    if (params.adaptive && step_cost_.known()) {
      const Cut cut = best_cut(outlook, state, drafter, job->tree, params.max_tokens);
      job->tree.keep(cut.nodes);
      outlook.tokens += cut.gain;
    } else {
      job->tree.truncate(std::min(job->tree.size(), params.max_tokens));
    }
    outlook.rows += job->tree.size();
  }
}

void Speculator::plan(std::span<Candidate> candidates, int64_t n_rows) {
  Outlook outlook{.tokens = static_cast<double>(n_rows), .rows = n_rows};
  if (step_cost_.known()) {
    for (const auto& drafter : drafters_) drafter->target_row_takes(step_cost_.ms(1));
  }
  std::vector<std::vector<Candidate*>> chosen(drafters_.size());
  for (Candidate& candidate : candidates) {
    const Speculation& params = *candidate.job.params;
    State& state = state_of(candidate.job.key);
    state.drafter = state.shadow_drafter = -1;
    if (candidate.job.max_depth < 1 || params.max_tokens < 1) continue;
    Cut cut;
    double best_rate = step_cost_.known() ? rate(outlook) : 0;
    propose_free(candidate, state, outlook, cut, best_rate);
    int costly = -1;
    for (size_t d = 0; d < drafters_.size(); ++d) {
      if (drafters_[d]->is_free() || !drafters_[d]->serves(params.mode)) continue;
      if (!params.adaptive) {
        if (state.drafter < 0) costly = static_cast<int>(d);
        continue;
      }
      if (!step_cost_.known()) continue;
      double promised = promised_rate(outlook, candidate, state, d);
      if (promised == 0 && tokens_since_use_[d] >= kProbeTokens) promised = rate(outlook) * kWorthwhile;
      if (promised <= best_rate) continue;
      best_rate = promised;
      costly = static_cast<int>(d);
    }
    if (costly >= 0) {
      candidate.job.tree.clear();
      chosen[static_cast<size_t>(costly)].push_back(&candidate);
    } else if (state.drafter >= 0) {
      candidate.job.tree.keep(cut.nodes);
      outlook.tokens += cut.gain;
      outlook.rows += candidate.job.tree.size();
    }
  }
  for (size_t d = 0; d < drafters_.size(); ++d) {
    if (!chosen[d].empty()) propose_costly(d, chosen[d], outlook);
  }
  for (Candidate& candidate : candidates) {
    DraftTree& tree = candidate.job.tree;
    if (tree.size() < candidate.job.params->min_tokens) tree.clear();
    tree.check_invariants();
  }
}

void Speculator::note_outcome(int64_t key, const DraftTree& tree, int32_t node, int32_t next) {
  State& state = state_of(key);
  for (int64_t& tokens : tokens_since_use_) tokens += tree.depth(node) + 1;
  const auto observe = [&](int drafter, float confidence, bool accepted) {
    state.own[static_cast<size_t>(drafter)].observe(confidence, accepted);
    all_[static_cast<size_t>(drafter)].observe(confidence, accepted);
    if (drafters_[static_cast<size_t>(drafter)]->is_free() || state.n_certainty == 0) return;
    n_wrong_ = kPriorWrong + (n_wrong_ - kPriorWrong) * kAllFade + (accepted ? 0 : 1);
    doubt_ = kPriorDoubt + (doubt_ - kPriorDoubt) * kAllFade + 1 - certainty(state);
  };
  std::vector<bool> accepted(tree.tokens.size(), false);
  for (int32_t n = node; n >= 0; n = tree.parents[static_cast<size_t>(n)]) accepted[static_cast<size_t>(n)] = true;
  if (tree.empty() || state.drafter < 0) {
    const int32_t first = node >= 0 ? tree.tokens.front() : next;
    if (state.shadow_drafter >= 0 && first >= 0) {
      observe(state.shadow_drafter, state.shadow_confidence, first == state.shadow_token);
    }
    state.shadow_drafter = -1;
    return;
  }
  // A draft was judged when its parent was accepted and a token was chosen behind that.
  SpeculationStats& stats = state.stats;
  ++stats.n_rounds;
  int deepest = 0;
  for (int32_t n = 0; n < tree.size(); ++n) {
    const auto i = static_cast<size_t>(n);
    const int32_t parent = tree.parents[i];
    const bool judged = parent < 0 || accepted[static_cast<size_t>(parent)];
    if (judged && (parent != node || next >= 0)) observe(state.drafter, tree.confidence[i], accepted[i]);
    deepest = std::max(deepest, tree.depth(n));
  }
  const auto grow = [](std::vector<int64_t>& counts, int depth) {
    if (counts.size() < static_cast<size_t>(depth)) counts.resize(static_cast<size_t>(depth), 0);
    for (int d = 0; d < depth; ++d) ++counts[static_cast<size_t>(d)];
  };
  stats.n_drafted += tree.size();
  stats.n_accepted += tree.depth(node);
  grow(stats.drafted_at, deepest);
  grow(stats.accepted_at, tree.depth(node));
}

void Speculator::page_copied(int32_t src, int32_t dst) {
  for (const auto& drafter : drafters_) drafter->page_copied(src, dst);
}

void Speculator::forget(int64_t key, std::span<const int32_t> tokens) {
  sequences_.erase(key);
  for (const auto& drafter : drafters_) drafter->forget(key, tokens);
}

}  // namespace loci
