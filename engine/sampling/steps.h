// The sampler's steps as pure functions on one row of candidates. Called by Sampler in the order of
// SamplingParams::samplers; each keeps at least one candidate. Meaning and formulas: docs/sampling.md.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace loci {

class Tokenizer;

struct Candidate {
  int32_t token;
  float logit;  // finite
  double p;     // valid after softmax()
};

// INVARIANT: no NaN and no infinite logits; not empty unless the whole row was NaN or -inf.
struct Candidates {
  std::vector<Candidate> items;
  bool sorted = false;  // by logit descending, then token ascending
};

// All tokens with a usable logit, by id. +inf becomes the greatest float, so that differences stay defined.
Candidates all_candidates(std::span<const float> row);
// As all_candidates() followed by top_k(), without building the whole list. REQUIRES: k > 0.
Candidates top_k_of_row(std::span<const float> row, int32_t k);
// Token with the greatest logit, the lowest id among equals; NaN never wins. nullopt: all NaN or -inf.
std::optional<int32_t> argmax(std::span<const float> row);

// Sets p of every candidate. Sums in list order.
void softmax(Candidates& c);
void sort_all(Candidates& c);

// --- Truncation. `min_keep` counts candidates that stay in any case.
void top_k(Candidates& c, int32_t k);                      // k <= 0: off
void top_p(Candidates& c, float p, int32_t min_keep);      // smallest set with mass >= p; p >= 1: off
void min_p(Candidates& c, float p, int32_t min_keep);      // keeps p_i >= p * p_max; p <= 0: off
void typical_p(Candidates& c, float p, int32_t min_keep);  // Meister et al. 2022; p >= 1: off
void top_n_sigma(Candidates& c, float n);                  // keeps logit >= max - n * std; n <= 0: off
// Exclude top choices: drops all but the least likely of the tokens with p >= threshold. Off when threshold > 0.5
// (two tokens can't both reach it). The caller has drawn that this step takes place.
void xtc(Candidates& c, float threshold, int32_t min_keep);

// --- Scaling.
// Divides by t; t <= 0 (or so small that the quotient overflows) keeps the best candidate alone.
void temperature(Candidates& c, float t);
// Temperature between t - range and t + range by the entropy of the row, relative to a uniform one, to `exponent`.
void dynamic_temperature(Candidates& c, float t, float range, float exponent);

// --- Penalties. A penalised logit for a token that occurs `count` > 0 times in the window.
float penalized(float logit, int32_t count, float repeat, float frequency, float presence);

// Sequence breakers of DRY: first token of a breaker -> the tokens that must follow it (often none).
struct DryBreakers {
  std::unordered_multimap<int32_t, std::vector<int32_t>> sequences;
};
// Finds every way in which tokens can spell a breaker, also as part of a longer token.
DryBreakers find_dry_breakers(const Tokenizer& tokenizer, std::span<const std::string> breakers);

struct DryParams {
  float multiplier, base;
  int32_t allowed_length;
};
// What to subtract from which token's logit ("don't repeat yourself"): a token that would extend a repetition of
// length L >= allowed_length costs multiplier * base^(L - allowed_length). `window` is the history that counts, oldest
// first. Linear in the window.
std::vector<std::pair<int32_t, float>> dry_penalties(std::span<const int32_t> window, const DryParams& params,
                                                     const DryBreakers& breakers);

// --- Choosing.
// Index of the candidate at u in [0, 1) of the cumulated probability, in list order. REQUIRES: softmax() was called.
size_t draw(const Candidates& c, double u);

// Mirostat (Basu et al. 2021): truncates so that the surprise of the chosen tokens stays near tau; mu is the state.
void mirostat_v1(Candidates& c, double mu, int64_t vocab_size);  // top-k, k by the row's estimated Zipf exponent
void mirostat_v2(Candidates& c, double mu);                      // drops tokens with surprise > mu bits

// Adaptive-p: replaces logits by a bump around `target` (probability): near tokens gain, far ones lose.
// REQUIRES: softmax() was called; p stays the original probability.
void adaptive_p(Candidates& c, double target);

}  // namespace loci
