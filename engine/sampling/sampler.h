// Sampling: one row of logits to one token, by the ordered steps of docs/sampling.md. Names and defaults are those
// of llama.cpp's flags and JSON fields.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/sampling/steps.h"
#include "engine/text/tokenizer.h"

namespace loci {

struct SamplingParams {
  float temperature = 0.80f;  // <= 0: greedy
  float dynatemp_range = 0, dynatemp_exponent = 1;
  int32_t top_k = 40;  // 0: off
  float top_p = 0.95f;
  float min_p = 0.05f;
  float typical_p = 1.0f;
  float top_n_sigma = -1;  // <= 0: off
  float xtc_probability = 0, xtc_threshold = 0.10f;
  int32_t repeat_last_n = 64;  // -1: whole context
  float repeat_penalty = 1.0f, presence_penalty = 0, frequency_penalty = 0;
  float dry_multiplier = 0, dry_base = 1.75f;
  int32_t dry_allowed_length = 2, dry_penalty_last_n = 64;  // conventions A3
  std::vector<std::string> dry_sequence_breakers{"\n", ":", "\"", "*"};
  int32_t mirostat = 0;  // 0, 1, 2
  float mirostat_tau = 5.0f, mirostat_eta = 0.1f;
  float adaptive_target = -1, adaptive_decay = 0.9f;
  int32_t min_keep = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  // token, bias (-inf: never)
  bool ignore_eos = false;
  int64_t seed = -1;  // -1: random, reported
  std::vector<std::string> samplers{"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                    "top_p",     "min_p", "xtc",         "temperature"};
};

// Checks ranges. Returns an empty string, or what is wrong ("temp: expected a finite number >= 0, found nan").
std::string check(const SamplingParams& params, int32_t vocab_size);
// "edskypmxt" (or other letters) -> step names. Throws Error naming an unknown letter.
std::vector<std::string> samplers_from_letters(const std::string& letters);
std::vector<std::string> samplers_from_names(const std::string& semicolon_list);

struct TokenProb {
  int32_t token = -1;
  float logprob = 0;  // natural log, over the whole vocabulary, before any sampling step
};

// What the sampler must know of a vocabulary.
struct SamplerVocab {
  std::vector<int32_t> end_of_generation;
  std::vector<int32_t> suppressed;  // never sampled
  DryBreakers breakers;             // needed when DRY is on
};

// Samples one sequence. Reproducible: the draw for the i-th sampled token depends on (seed, i) alone.
// A value: a copy goes on independently from the same state.
class Sampler {
 public:
  // `tokenizer` is used for DRY's breakers, end-of-generation ids and suppressed tokens; it is not kept.
  // REQUIRES: check(params, tokenizer.vocab_size()) is empty.
  // `constraint`: a grammar that the tokens obey, before all steps; nullptr: none.
  Sampler(const SamplingParams& params, const Tokenizer& tokenizer,
          std::shared_ptr<const Constraint> constraint = nullptr);
  Sampler(const SamplingParams& params, SamplerVocab vocab);

  // Notes a token of the history (prompt and generated alike), for penalties and DRY; a generated one goes on in the
  // grammar. False when the grammar does not take it.
  bool accept(int32_t token, bool is_prompt);
  // Chooses the next token; does not accept it. nullopt when no token has a finite logit (all NaN or -inf).
  [[nodiscard]] std::optional<int32_t> sample(std::span<const float> logits);
  // Where the sequence stands in its grammar; nullptr without one.
  ConstraintState* constraint() { return constraint_ ? &*constraint_ : nullptr; }
  const ConstraintState* constraint() const { return constraint_ ? &*constraint_ : nullptr; }
  // Seed in use (the random one when params.seed was -1).
  uint64_t seed() const;

 private:
  std::span<const int32_t> dry_window() const;
  std::optional<int32_t> draw_token(Candidates& c);

  SamplingParams params_;
  SamplerVocab vocab_;
  uint64_t seed_ = 0;
  uint64_t n_sampled_ = 0;
  std::vector<int32_t> history_;                 // prompt and generated tokens, oldest first
  std::unordered_map<int32_t, int32_t> counts_;  // of the last repeat_last_n tokens of history_
  std::optional<ConstraintState> constraint_;
  double mirostat_mu_ = 0;                         // bits
  double adaptive_sum_ = 0, adaptive_weight_ = 0;  // decayed sums over chosen tokens: of their probability, of 1
};

// Probability of the most probable token, among the ten best; 0 when no logit is finite.
float top_probability(std::span<const float> logits);

// The n most probable tokens, best first, and the chosen one appended when it is not among them.
std::vector<TokenProb> top_logprobs(std::span<const float> logits, int n, int32_t chosen);

}  // namespace loci
