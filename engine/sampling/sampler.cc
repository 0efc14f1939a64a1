#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/sampling/plain_math.h"
#include "engine/sampling/rng.h"
#include "kernels/check.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A row on its way through the steps: first as all logits by id, copied when a step changes one; as a candidate list
// once a step has dropped tokens.
struct Row {
  explicit Row(std::span<const float> row) : logits(row) {}

  std::span<float> writable() {
    if (copy.empty()) {
      copy.assign(logits.begin(), logits.end());
      logits = copy;
    }
    return copy;
  }
  Candidates& list() {
    if (!listed) candidates = all_candidates(logits), listed = true;
    return candidates;
  }
  // Replaces the logit of each token in `amounts` (pairs of token and amount) by change(logit, amount).
  template <typename Amounts, typename Change>
  void adjust(const Amounts& amounts, Change change) {
    if (amounts.empty()) return;
    if (!listed) {
      const std::span<float> row = writable();
      for (const auto& [token, amount] : amounts) {
        if (token < 0 || static_cast<size_t>(token) >= row.size() || !(row[token] > -kInfinity)) continue;
        row[token] = change(std::min(row[token], std::numeric_limits<float>::max()), amount);
      }
      return;
    }
    std::unordered_map<int32_t, Candidate*> by_token;
    for (Candidate& item : candidates.items) by_token[item.token] = &item;
    for (const auto& [token, amount] : amounts) {
      const auto it = by_token.find(token);
      if (it != by_token.end()) it->second->logit = change(it->second->logit, amount);
    }
    candidates.sorted = false;
  }

  std::span<const float> logits;
  std::vector<float> copy;
  Candidates candidates;
  bool listed = false;
};

// What a step may read beside its parameters.
struct StepContext {
  const std::unordered_map<int32_t, int32_t>& counts;  // of the tokens in the penalty window
  std::span<const int32_t> dry_window;
  const DryBreakers& breakers;
  double xtc_draw;
};

using Params = SamplingParams;

void run_penalties(const Params& p, const StepContext& context, Row& row) {
  row.adjust(context.counts, [&](float logit, int32_t count) {
    return penalized(logit, count, p.repeat_penalty, p.frequency_penalty, p.presence_penalty);
  });
}

void run_dry(const Params& p, const StepContext& context, Row& row) {
  const DryParams dry{p.dry_multiplier, p.dry_base, p.dry_allowed_length};
  row.adjust(dry_penalties(context.dry_window, dry, context.breakers), [](float logit, float penalty) {
    return std::max(logit - penalty, std::numeric_limits<float>::lowest());
  });
}

void run_top_k(const Params& p, const StepContext&, Row& row) {
  if (row.listed) return top_k(row.candidates, p.top_k);
  row.candidates = top_k_of_row(row.logits, p.top_k);
  row.listed = true;
}

void run_xtc(const Params& p, const StepContext& context, Row& row) {
  if (context.xtc_draw < p.xtc_probability) xtc(row.list(), p.xtc_threshold, p.min_keep);
}

void run_temperature(const Params& p, const StepContext&, Row& row) {
  if (p.temperature <= 0) return temperature(row.list(), 0);
  dynamic_temperature(row.list(), p.temperature, p.dynatemp_range, p.dynatemp_exponent);
}

struct Step {
  const char* name;
  char letter;
  const char* alias;  // a second name, or ""
  bool dethrones;     // may drop the best token, so that greedy decoding can't skip it
  bool truncates;     // mirostat takes its place
  bool (*is_on)(const Params&);
  void (*run)(const Params&, const StepContext&, Row&);  // REQUIRES: is_on
};

using Context = StepContext;

// In the default order. adaptive_p acts after all others wherever it is named, when adaptive_target asks for it: see
// Sampler::draw_token().
// clang-format off
constexpr Step kSteps[] = {
    {"penalties", 'e', "", true, false,
     [](const Params& p) { return p.repeat_last_n != 0 &&
              (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0); },
     run_penalties},
    {"dry", 'd', "", true, false,
     [](const Params& p) { return p.dry_multiplier > 0 && p.dry_penalty_last_n != 0; }, run_dry},
    {"top_n_sigma", 's', "top_nsigma", false, true,
     [](const Params& p) { return p.top_n_sigma > 0; },
     [](const Params& p, const Context&, Row& row) { top_n_sigma(row.list(), p.top_n_sigma); }},
    {"top_k", 'k', "", false, true,
     [](const Params& p) { return p.top_k > 0; }, run_top_k},
    {"typ_p", 'y', "typical_p", true, true,
     [](const Params& p) { return p.typical_p < 1; },
     [](const Params& p, const Context&, Row& row) { typical_p(row.list(), p.typical_p, p.min_keep); }},
    {"top_p", 'p', "nucleus", false, true,
     [](const Params& p) { return p.top_p < 1; },
     [](const Params& p, const Context&, Row& row) { top_p(row.list(), p.top_p, p.min_keep); }},
    {"min_p", 'm', "", false, true,
     [](const Params& p) { return p.min_p > 0; },
     [](const Params& p, const Context&, Row& row) { min_p(row.list(), p.min_p, p.min_keep); }},
    {"xtc", 'x', "", true, true,
     [](const Params& p) { return p.xtc_probability > 0 && p.xtc_threshold <= 0.5f; }, run_xtc},
    {"temperature", 't', "temp", false, false,
     [](const Params&) { return true; }, run_temperature},
    {"adaptive_p", 'a', "", false, true,
     [](const Params&) { return false; }, [](const Params&, const Context&, Row&) {}},
};
// clang-format on

// nullptr when unknown. '-' counts as '_'.
const Step* find_step(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  for (const Step& step : kSteps) {
    if (name == step.name || (!name.empty() && name == step.alias)) return &step;
  }
  return nullptr;
}

std::string known_names() {
  std::string list;
  for (const Step& step : kSteps) list += (list.empty() ? "" : ", ") + std::string(step.name);
  return list;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

uint64_t random_seed() { return std::random_device{}(); }  // 32 bits: exact in every JSON reader

}  // namespace

std::string check(const SamplingParams& p, int32_t vocab_size) {
  const auto bad = [](const char* name, const char* expected, auto found) {
    return str(name, ": expected ", expected, ", found ", found);
  };
  const auto finite = [](float x) { return std::isfinite(x); };
  const auto in_unit = [](float x) { return x >= 0 && x <= 1; };  // false for NaN
  if (!finite(p.temperature) || p.temperature < 0) return bad("temp", "a finite number >= 0", p.temperature);
  if (!finite(p.dynatemp_range) || p.dynatemp_range < 0) {
    return bad("dynatemp_range", "a finite number >= 0", p.dynatemp_range);
  }
  if (!finite(p.dynatemp_exponent) || p.dynatemp_exponent < 0) {
    return bad("dynatemp_exponent", "a finite number >= 0", p.dynatemp_exponent);
  }
  if (!in_unit(p.top_p)) return bad("top_p", "a number from 0 to 1", p.top_p);
  if (!in_unit(p.min_p)) return bad("min_p", "a number from 0 to 1", p.min_p);
  if (!in_unit(p.typical_p)) return bad("typical_p", "a number from 0 to 1", p.typical_p);
  if (!finite(p.top_n_sigma)) return bad("top_n_sigma", "a finite number", p.top_n_sigma);
  if (!in_unit(p.xtc_probability)) return bad("xtc_probability", "a number from 0 to 1", p.xtc_probability);
  if (!in_unit(p.xtc_threshold)) return bad("xtc_threshold", "a number from 0 to 1", p.xtc_threshold);
  if (p.repeat_last_n < -1) return bad("repeat_last_n", "-1 (whole context), 0 (off) or a count", p.repeat_last_n);
  if (!finite(p.repeat_penalty) || p.repeat_penalty <= 0) {
    return bad("repeat_penalty", "a finite number > 0", p.repeat_penalty);
  }
  if (!finite(p.presence_penalty)) return bad("presence_penalty", "a finite number", p.presence_penalty);
  if (!finite(p.frequency_penalty)) return bad("frequency_penalty", "a finite number", p.frequency_penalty);
  if (!finite(p.dry_multiplier) || p.dry_multiplier < 0) {
    return bad("dry_multiplier", "a finite number >= 0", p.dry_multiplier);
  }
  if (!finite(p.dry_base) || p.dry_base < 1) return bad("dry_base", "a finite number >= 1", p.dry_base);
  if (p.dry_allowed_length < 0) return bad("dry_allowed_length", "a count >= 0", p.dry_allowed_length);
  if (p.dry_penalty_last_n < -1) {
    return bad("dry_penalty_last_n", "-1 (whole context), 0 (off) or a count", p.dry_penalty_last_n);
  }
  if (p.mirostat < 0 || p.mirostat > 2) return bad("mirostat", "0, 1 or 2", p.mirostat);
  if (!finite(p.mirostat_tau) || p.mirostat_tau < 0) return bad("mirostat_tau", "a finite number >= 0", p.mirostat_tau);
  if (!finite(p.mirostat_eta) || p.mirostat_eta < 0) return bad("mirostat_eta", "a finite number >= 0", p.mirostat_eta);
  if (!finite(p.adaptive_target) || p.adaptive_target > 1) {
    return bad("adaptive_target", "a number from 0 to 1, or a negative one (off)", p.adaptive_target);
  }
  if (!(p.adaptive_decay >= 0 && p.adaptive_decay <= 0.99f)) {
    return bad("adaptive_decay", "a number from 0 to 0.99", p.adaptive_decay);
  }
  if (p.min_keep < 0) return bad("min_keep", "a count >= 0", p.min_keep);
  if (p.seed < -1) return bad("seed", "-1 (random) or a number >= 0", p.seed);
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return str("logit_bias: expected a token id from 0 to ", vocab_size - 1, ", found ", token);
    }
    if (std::isnan(bias) || bias == kInfinity) {
      return str("logit_bias: token ", token, ": expected a finite number or -inf, found ", bias);
    }
  }
  for (const std::string& name : p.samplers) {
    if (find_step(name) == nullptr) {
      return str("samplers: expected some of ", known_names(), "; found '", name, "'");
    }
  }
  return "";
}

std::vector<std::string> samplers_from_letters(const std::string& letters) {
  std::vector<std::string> names;
  for (const char letter : letters) {
    const auto step =
        std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Step& s) { return s.letter == letter; });
    if (step == std::end(kSteps)) {
      std::string known;
      for (const Step& s : kSteps) known += s.letter;
      fail(ErrorKind::kInvalidInput, "sampling-seq: expected letters of '", known, "', found '", letter, "'");
    }
    names.emplace_back(step->name);
  }
  return names;
}

std::vector<std::string> samplers_from_names(const std::string& semicolon_list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= semicolon_list.size();) {
    const size_t end = std::min(semicolon_list.find(';', begin), semicolon_list.size());
    const std::string name = trimmed(semicolon_list.substr(begin, end - begin));
    begin = end + 1;
    if (name.empty()) continue;
    const Step* step = find_step(name);
    if (step == nullptr) {
      fail(ErrorKind::kInvalidInput, "samplers: expected some of ", known_names(), "; found '", name, "'");
    }
    names.emplace_back(step->name);
  }
  return names;
}

Sampler::Sampler(const SamplingParams& params, SamplerVocab vocab)
    : params_(params),
      vocab_(std::move(vocab)),
      seed_(params.seed == -1 ? random_seed() : static_cast<uint64_t>(params.seed)),
      mirostat_mu_(2.0 * params.mirostat_tau),
      // As if the target had been met forever, so that the first tokens are not pushed.
      adaptive_sum_(params.adaptive_target / (1.0 - params.adaptive_decay)),
      adaptive_weight_(1.0 / (1.0 - params.adaptive_decay)) {
  for (const std::string& name : params_.samplers) {
    if (find_step(name) == nullptr) {
      fail(ErrorKind::kInvalidInput, "samplers: expected some of ", known_names(), "; found '", name, "'");
    }
  }
}

uint64_t Sampler::seed() const { return seed_; }

bool Sampler::accept(int32_t token, bool is_prompt) {
  // Penalties and DRY look at prompt and answer alike, a grammar at the answer.
  if (!is_prompt && constraint_ && !constraint_->accept(token)) return false;
  history_.push_back(token);
  ++counts_[token];
  const size_t window = static_cast<size_t>(std::max(params_.repeat_last_n, 0));
  if (params_.repeat_last_n >= 0 && history_.size() > window) {
    const auto oldest = counts_.find(history_[history_.size() - 1 - window]);
    if (--oldest->second == 0) counts_.erase(oldest);
  }
  return true;
}

std::span<const int32_t> Sampler::dry_window() const {
  const std::span<const int32_t> all = history_;
  if (params_.dry_penalty_last_n < 0) return all;
  return all.last(std::min(all.size(), static_cast<size_t>(params_.dry_penalty_last_n)));
}

// Draws by the probabilities of `c`, and moves the state of mirostat or adaptive-p.
std::optional<int32_t> Sampler::draw_token(Candidates& c) {
  const double u = uniform(seed_, n_sampled_, RandomStream::kToken);
  softmax(c);
  if (params_.mirostat != 0) {
    const Candidate& chosen = c.items[draw(c, u)];
    const double surprise = -plain::log(chosen.p) / plain::log(2);
    mirostat_mu_ -= params_.mirostat_eta * (surprise - params_.mirostat_tau);
    return chosen.token;
  }
  if (params_.adaptive_target < 0) return c.items[draw(c, u)].token;
  std::vector<double> original(c.items.size());
  for (size_t i = 0; i < original.size(); ++i) original[i] = c.items[i].p;
  adaptive_p(c, std::clamp(2.0 * params_.adaptive_target - adaptive_sum_ / adaptive_weight_, 0.0, 1.0));
  softmax(c);
  const size_t chosen = draw(c, u);
  adaptive_sum_ = original[chosen] + params_.adaptive_decay * adaptive_sum_;
  adaptive_weight_ = 1 + params_.adaptive_decay * adaptive_weight_;
  return c.items[chosen].token;
}

std::optional<int32_t> Sampler::sample(std::span<const float> logits) {
  Row row(logits);
  row.adjust(params_.logit_bias, [](float logit, float bias) { return logit + bias; });
  const auto forbid = [&](std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) {
      if (token >= 0 && static_cast<size_t>(token) < logits.size()) row.writable()[token] = -kInfinity;
    }
  };
  forbid(vocab_.suppressed);
  if (params_.ignore_eos) forbid(vocab_.end_of_generation);
  if (constraint_) constraint_->apply(row.writable());

  const bool greedy = params_.temperature <= 0;
  const StepContext context{counts_, dry_window(), vocab_.breakers, uniform(seed_, n_sampled_, RandomStream::kXtc)};
  std::vector<const Step*> steps;
  for (const std::string& name : params_.samplers) {
    const Step* step = find_step(name);
    if (step->is_on(params_) && !(params_.mirostat != 0 && step->truncates)) steps.push_back(step);
  }
  // Greedy decoding needs no step after the last one that can change which token is best.
  while (greedy && !steps.empty() && !steps.back()->dethrones) steps.pop_back();
  for (const Step* step : steps) {
    step->run(params_, context, row);
    if (row.listed && row.candidates.items.empty()) break;
  }
  std::optional<int32_t> token;
  if (greedy && !row.listed) {
    token = argmax(row.logits);  // no candidate list: one pass over the row
  } else if (Candidates& c = row.list(); !c.items.empty()) {
    if (greedy) temperature(c, 0);
    if (params_.mirostat == 1) mirostat_v1(c, mirostat_mu_, static_cast<int64_t>(logits.size()));
    if (params_.mirostat == 2) mirostat_v2(c, mirostat_mu_);
    token = draw_token(c);
  }
  ++n_sampled_;
  return token;
}

float top_probability(std::span<const float> logits) {
  constexpr int kOf = 10;
  Candidates best = top_k_of_row(logits, kOf);
  if (best.items.empty()) return 0;
  softmax(best);
  return static_cast<float>(best.items.front().p);
}

std::vector<TokenProb> top_logprobs(std::span<const float> logits, int n, int32_t chosen) {
  std::vector<TokenProb> result;
  const std::optional<int32_t> best = argmax(logits);
  if (!best) return result;
  constexpr float kMaxFloat = std::numeric_limits<float>::max();
  const double top = std::min(logits[*best], kMaxFloat);
  double sum = 0;
  for (const float logit : logits) sum += logit > -kInfinity ? plain::exp(std::min(logit, kMaxFloat) - top) : 0.0;
  const double log_sum = plain::log(sum);
  const auto logprob = [&](float logit) {
    return logit > -kInfinity ? static_cast<float>(std::min(logit, kMaxFloat) - top - log_sum) : -kInfinity;
  };
  bool seen = false;
  if (n > 0) {
    for (const Candidate& item : top_k_of_row(logits, n).items) {
      result.push_back({item.token, logprob(item.logit)});
      seen = seen || item.token == chosen;
    }
  }
  if (!seen && chosen >= 0 && static_cast<size_t>(chosen) < logits.size()) {
    result.push_back({chosen, logprob(logits[static_cast<size_t>(chosen)])});
  }
  return result;
}

}  // namespace loci
