// The distribution of sampled tokens with speculation, by chi-square against the target model's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/engine/spec/chi_square.h"
#include "tests/engine/spec/speculation_helpers.h"

namespace loci {
namespace {

using test::alike;
using test::fixed;
using test::load_pair;
using test::ModelPair;
using test::random_tokens;
using test::request_for;
using test::Result;

// The first three tokens of an answer: the first comes with the prompt, the others are drafted.
struct Target {
  std::vector<std::vector<int32_t>> texts;
  std::vector<double> probability;  // by plain evaluation
};

constexpr int kTopK = 4;
constexpr float kTemperature = 1.3f;

std::vector<std::pair<int32_t, double>> top_distribution(std::vector<float> logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  std::vector<std::pair<int32_t, double>> result;
  double sum = 0;
  for (int i = 0; i < kTopK; ++i) {
    const auto token = order[static_cast<size_t>(i)];
    const double weight = std::exp(double{logits[static_cast<size_t>(token)] - logits[static_cast<size_t>(order[0])]} /
                                   double{kTemperature});
    result.emplace_back(token, weight);
    sum += weight;
  }
  for (auto& [token, p] : result) p /= sum;
  return result;
}

Target target_of(Engine& engine, const std::vector<int32_t>& prompt) {
  Target target{{{}}, {1.0}};
  for (int length = 1; length <= 3; ++length) {
    Target longer;
    for (size_t i = 0; i < target.texts.size(); ++i) {
      std::vector<int32_t> tokens = prompt;
      tokens.insert(tokens.end(), target.texts[i].begin(), target.texts[i].end());
      for (const auto& [token, p] : top_distribution(test::last_logits(engine, tokens))) {
        longer.texts.push_back(target.texts[i]);
        longer.texts.back().push_back(token);
        longer.probability.push_back(target.probability[i] * p);
      }
    }
    target = std::move(longer);
  }
  target.probability.push_back(0);  // any other text
  return target;
}

// Draws with consecutive seeds.
std::vector<int64_t> count_texts(Engine& engine, const std::vector<int32_t>& prompt, const Target& target,
                                 const Speculation& speculation, int n_draws, float bias, int64_t& n_accepted) {
  std::vector<int64_t> counts(target.probability.size(), 0);
  n_accepted = 0;
  const int n_together = engine.config().max_sequences;
  for (int first = 0; first < n_draws; first += n_together) {
    std::vector<Result> results(static_cast<size_t>(n_together));
    for (int i = 0; i < n_together; ++i) {
      Request request = request_for(prompt, 4, results[static_cast<size_t>(i)], speculation);
      request.n_top_logprobs = 0;
      request.sampling.samplers = {"top_k", "temperature"};
      request.sampling.top_k = kTopK;
      request.sampling.temperature = kTemperature;
      request.sampling.seed = 1000 + first + i;
      if (bias != 0) request.sampling.logit_bias = {{target.texts.front()[1], bias}};
      engine.submit(std::move(request));
    }
    engine.run_until_idle();
    for (const Result& result : results) {
      const std::vector<int32_t> text(result.tokens.begin(), result.tokens.begin() + 3);
      const auto found = std::find(target.texts.begin(), target.texts.end(), text);
      ++counts[static_cast<size_t>(found - target.texts.begin())];
      n_accepted += result.stats.speculation.n_accepted;
    }
  }
  return counts;
}

class SpeculationDraws : public testing::TestWithParam<int> {};

TEST_P(SpeculationDraws, FollowTheTarget) {
  ModelPair pair = alike();
  pair.target.n_layers = pair.draft.n_layers = 1;
  const auto engine = load_pair(pair, [](EngineConfig& config) {
    config.max_sequences = 32;
    config.n_ctx = 1024;
    config.n_ubatch = 256;
  });
  const std::vector<int32_t> prompt = random_tokens(12, 4);
  const Target target = target_of(*engine, prompt);
  const Speculation params = fixed(SpeculationMode::kDraft, 3, GetParam());
  int64_t n_accepted = 0;
  const std::vector<int64_t> counts = count_texts(*engine, prompt, target, params, 50016, 0, n_accepted);
  EXPECT_GT(n_accepted, 5000);
  EXPECT_GT(test::chi_square_p(counts, target.probability), 0.01);
  // The same test finds that a token got a third more than its share.
  const std::vector<int64_t> biased = count_texts(*engine, prompt, target, params, 50016, 0.3f, n_accepted);
  EXPECT_LT(test::chi_square_p(biased, target.probability), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(ChainAndTree, SpeculationDraws, testing::Values(1, 3),
                         [](const auto& which) { return which.param == 1 ? "Chain" : "Tree"; });

}  // namespace
}  // namespace loci
