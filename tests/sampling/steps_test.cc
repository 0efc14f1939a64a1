// The sampler's steps against direct formulas on small rows.
#include "engine/sampling/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/sampling/plain_math.h"
#include "engine/sampling/rng.h"

namespace loci {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Row whose softmax is exactly proportional to `weights`, given in any scale.
Candidates row_of(const std::vector<double>& weights) {
  std::vector<float> logits;
  for (const double w : weights) logits.push_back(static_cast<float>(std::log(w)));
  return all_candidates(logits);
}

std::vector<int32_t> tokens(Candidates c) {
  std::vector<int32_t> ids;
  for (const Candidate& item : c.items) ids.push_back(item.token);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<float> random_row(size_t n, uint32_t seed, int distinct = 0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> row(n);
  for (float& x : row)
    x = distinct > 0 ? static_cast<float>(engine() % static_cast<uint32_t>(distinct)) : normal(engine);
  return row;
}

std::vector<int32_t> best_by_sorting(const std::vector<float>& row, size_t k) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!std::isnan(row[i]) && row[i] != -kInf) ids.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
  ids.resize(std::min(k, ids.size()));
  return ids;
}

TEST(PlainMath, MatchesTheCLibrary) {
  for (double x = -700; x < 700; x += 0.0371) {
    EXPECT_NEAR(plain::exp(x) / std::exp(x), 1, 4 * std::numeric_limits<double>::epsilon()) << x;
  }
  EXPECT_EQ(plain::exp(0), 1);
  EXPECT_EQ(plain::exp(-1e300), 0);
  EXPECT_EQ(plain::exp(-std::numeric_limits<double>::infinity()), 0);
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(plain::log(x), std::log(x), 2 * std::numeric_limits<double>::epsilon() * std::abs(std::log(x))) << x;
  }
  for (double x = 0.9; x < 1.1; x += 1e-4) EXPECT_NEAR(plain::log(x), std::log(x), 1e-16) << x;
  EXPECT_EQ(plain::log(1), 0);
  EXPECT_EQ(plain::log(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(plain::log(-1)));
  EXPECT_NEAR(plain::pow(1.75, 3.5), std::pow(1.75, 3.5), 1e-14);
  EXPECT_EQ(plain::pow(0, 0), 1);
}

TEST(Rng, DependsOnSeedIndexAndStreamAlone) {
  EXPECT_EQ(uniform(1, 5, RandomStream::kToken), uniform(1, 5, RandomStream::kToken));
  EXPECT_NE(uniform(1, 5, RandomStream::kToken), uniform(2, 5, RandomStream::kToken));
  EXPECT_NE(uniform(1, 5, RandomStream::kToken), uniform(1, 6, RandomStream::kToken));
  EXPECT_NE(uniform(1, 5, RandomStream::kToken), uniform(1, 5, RandomStream::kXtc));
}

// Chi-square over 64 cells: 63 degrees of freedom, 0.1 % points 30.9 and 106.
TEST(Rng, IsUniformOverIndicesAndOverSeeds) {
  constexpr int kCells = 64, kDraws = 100000;
  for (const bool over_seeds : {false, true}) {
    std::vector<int> cells(kCells);
    for (int i = 0; i < kDraws; ++i) {
      const double u = uniform(over_seeds ? i : 7, over_seeds ? 3 : i, RandomStream::kToken);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      ++cells[static_cast<size_t>(u * kCells)];
    }
    double chi2 = 0;
    const double expected = double(kDraws) / kCells;
    for (const int n : cells) chi2 += (n - expected) * (n - expected) / expected;
    EXPECT_GT(chi2, 30.9);
    EXPECT_LT(chi2, 106);
  }
}

TEST(Argmax, TakesTheLowestIdAndNeverNan) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -5, kNan}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -kInf}), std::nullopt);
  EXPECT_EQ(argmax(std::vector<float>{}), std::nullopt);
  EXPECT_EQ(argmax(std::vector<float>{1, kInf, 2, kInf}), 1);
  for (const size_t n : {1u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u}) {
    std::vector<float> row = random_row(n, static_cast<uint32_t>(n), 40);
    EXPECT_EQ(argmax(row), best_by_sorting(row, 1)[0]) << n;
    for (size_t i = 0; i < n; i += 3) row[i] = kNan;
    const std::vector<int32_t> best = best_by_sorting(row, 1);
    EXPECT_EQ(argmax(row), best.empty() ? std::nullopt : std::optional<int32_t>(best[0])) << n;
  }
}

TEST(TopK, OfARowEqualsSorting) {
  for (const int distinct : {0, 5, 1000}) {
    for (const size_t n : {1u, 40u, 1000u, 20000u}) {
      std::vector<float> row = random_row(n, static_cast<uint32_t>(n + distinct), distinct);
      for (size_t i = 0; i < n; i += 11) row[i] = i % 2 == 0 ? kNan : -kInf;
      for (const int32_t k : {1, 2, 40, 300, 1000000000}) {
        const Candidates c = top_k_of_row(row, k);
        std::vector<int32_t> ids;
        for (const Candidate& item : c.items) ids.push_back(item.token);
        EXPECT_EQ(ids, best_by_sorting(row, static_cast<size_t>(k))) << n << " " << k << " " << distinct;
      }
    }
  }
}

TEST(TopK, ZeroAndNegativeAreOff) {
  Candidates c = row_of({1, 2, 3});
  top_k(c, 0);
  top_k(c, -1);
  EXPECT_EQ(c.items.size(), 3u);
  top_k(c, 2);
  EXPECT_THAT(tokens(c), ElementsAre(1, 2));
}

TEST(TopP, KeepsTheSmallestSetWithTheMass) {
  const std::vector<double> weights{0.05, 0.4, 0.25, 0.2, 0.1};
  for (const auto& [p, expected] : std::vector<std::pair<float, std::vector<int32_t>>>{{0.0f, {1}},
                                                                                       {1e-9f, {1}},
                                                                                       {0.39f, {1}},
                                                                                       {0.41f, {1, 2}},
                                                                                       {0.84f, {1, 2, 3}},
                                                                                       {0.94f, {1, 2, 3, 4}},
                                                                                       {0.96f, {0, 1, 2, 3, 4}},
                                                                                       {1.0f, {0, 1, 2, 3, 4}}}) {
    Candidates c = row_of(weights);
    top_p(c, p, 0);
    EXPECT_EQ(tokens(c), expected) << p;
  }
  Candidates c = row_of(weights);
  top_p(c, 0, 3);
  EXPECT_THAT(tokens(c), ElementsAre(1, 2, 3));
}

TEST(TopP, WideRowEqualsSorting) {
  const std::vector<float> row(5000, 1.0f);  // all equal: 0.5 of the mass is the first 2500 ids
  Candidates c = all_candidates(row);
  top_p(c, 0.5f, 0);
  EXPECT_NEAR(static_cast<double>(c.items.size()), 2500, 1);
  EXPECT_EQ(c.items.back().token, static_cast<int32_t>(c.items.size()) - 1);
}

TEST(MinP, KeepsWhatReachesTheShareOfTheBest) {
  const std::vector<double> weights{0.05, 0.4, 0.25, 0.2, 0.1};
  for (const auto& [p, expected] : std::vector<std::pair<float, std::vector<int32_t>>>{{0.0f, {0, 1, 2, 3, 4}},
                                                                                       {0.12f, {0, 1, 2, 3, 4}},
                                                                                       {0.13f, {1, 2, 3, 4}},
                                                                                       {0.3f, {1, 2, 3}},
                                                                                       {0.6f, {1, 2}},
                                                                                       {0.7f, {1}},
                                                                                       {1.0f, {1}}}) {
    Candidates c = row_of(weights);
    min_p(c, p, 0);
    EXPECT_EQ(tokens(c), expected) << p;
  }
  Candidates c = row_of(weights);
  min_p(c, 1, 2);
  EXPECT_THAT(tokens(c), ElementsAre(1, 2));
}

TEST(MinP, OneKeepsAllEqualToTheBest) {
  Candidates c = all_candidates(std::vector<float>{2, 3, 3});
  min_p(c, 1, 0);
  EXPECT_THAT(tokens(c), ElementsAre(1, 2));
}

TEST(TypicalP, KeepsTokensClosestToTheEntropy) {
  // H = 1.0801 nats; -ln p - H: 0.5 -> -0.387, 0.25 -> 0.306, 0.15 -> 0.817, 0.1 -> 1.22
  const std::vector<double> weights{0.5, 0.25, 0.15, 0.1};
  for (const auto& [p, expected] : std::vector<std::pair<float, std::vector<int32_t>>>{
           {0.0f, {1}}, {0.2f, {1}}, {0.3f, {0, 1}}, {0.8f, {0, 1, 2}}, {0.95f, {0, 1, 2, 3}}, {1.0f, {0, 1, 2, 3}}}) {
    Candidates c = row_of(weights);
    typical_p(c, p, 0);
    EXPECT_EQ(tokens(c), expected) << p;
  }
  Candidates c = row_of(weights);
  typical_p(c, 0, 2);
  EXPECT_THAT(tokens(c), ElementsAre(0, 1));
}

TEST(TopNSigma, CutsBelowMaxMinusNStandardDeviations) {
  // mean 2, population standard deviation sqrt(2)
  const std::vector<float> row{0, 1, 2, 3, 4};
  for (const auto& [n, expected] : std::vector<std::pair<float, std::vector<int32_t>>>{{-1.0f, {0, 1, 2, 3, 4}},
                                                                                       {0.0f, {0, 1, 2, 3, 4}},
                                                                                       {0.5f, {4}},
                                                                                       {1.0f, {3, 4}},
                                                                                       {1.5f, {2, 3, 4}},
                                                                                       {3.0f, {0, 1, 2, 3, 4}}}) {
    Candidates c = all_candidates(row);
    top_n_sigma(c, n);
    EXPECT_EQ(tokens(c), expected) << n;
  }
  Candidates equal = all_candidates(std::vector<float>{7, 7, 7});
  top_n_sigma(equal, 1);
  EXPECT_EQ(equal.items.size(), 3u);
}

TEST(Xtc, KeepsTheLeastLikelyOfTheTopChoices) {
  const std::vector<double> weights{0.4, 0.3, 0.2, 0.1};
  for (const auto& [threshold, expected] : std::vector<std::pair<float, std::vector<int32_t>>>{
           {0.05f, {3}}, {0.15f, {2, 3}}, {0.25f, {1, 2, 3}}, {0.35f, {0, 1, 2, 3}}, {0.6f, {0, 1, 2, 3}}}) {
    Candidates c = row_of(weights);
    xtc(c, threshold, 0);
    EXPECT_EQ(tokens(c), expected) << threshold;
  }
  Candidates c = row_of(weights);
  xtc(c, 0.05f, 2);  // would leave one
  EXPECT_EQ(c.items.size(), 4u);
}

TEST(Temperature, DividesAndZeroIsGreedy) {
  Candidates c = all_candidates(std::vector<float>{1, 4, 2});
  temperature(c, 2);
  EXPECT_EQ(c.items[1].logit, 2);
  temperature(c, 0);
  EXPECT_THAT(tokens(c), ElementsAre(1));
  for (const float t : {1e-45f, 1e-9f}) {
    Candidates small = all_candidates(std::vector<float>{1, 4, 2});
    temperature(small, t);
    softmax(small);
    for (const Candidate& item : small.items) EXPECT_EQ(item.p, item.token == 1 ? 1 : 0) << t;
  }
  Candidates hot = all_candidates(std::vector<float>{1, 4, 2});
  temperature(hot, 1e9f);
  softmax(hot);
  for (const Candidate& item : hot.items) EXPECT_NEAR(item.p, 1.0 / 3, 1e-6);
}

TEST(DynamicTemperature, FollowsTheNormalisedEntropy) {
  const std::vector<double> weights{0.5, 0.25, 0.15, 0.1};
  double h = 0;
  for (const double w : weights) h -= w * std::log(w);
  for (const float exponent : {1.0f, 2.0f}) {
    const double t = 0.3 + (1.3 - 0.3) * std::pow(h / std::log(4.0), exponent);
    Candidates c = row_of(weights);
    dynamic_temperature(c, 0.8f, 0.5f, exponent);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(c.items[i].logit, std::log(weights[i]) / t, 1e-5) << i;
  }
  Candidates uniform_row = row_of({1, 1, 1});
  dynamic_temperature(uniform_row, 1, 0.5f, 1);
  EXPECT_EQ(uniform_row.items.size(), 3u);
}

TEST(Penalties, FollowTheFormula) {
  EXPECT_FLOAT_EQ(penalized(2, 3, 1.5f, 0.1f, 0.25f), 2 / 1.5f - 0.3f - 0.25f);
  EXPECT_FLOAT_EQ(penalized(-2, 1, 1.5f, 0, 0), -3);
  EXPECT_EQ(penalized(2, 3, 1, 0, 0), 2);
}

TEST(Softmax, SurvivesExtremes) {
  Candidates c = all_candidates(std::vector<float>{kInf, 1, -1e38f, kNan, -kInf});
  EXPECT_EQ(c.items.size(), 3u);
  softmax(c);
  EXPECT_EQ(c.items[0].p, 1);
  EXPECT_EQ(c.items[1].p, 0);
}

TEST(Draw, WalksTheCumulatedProbability) {
  Candidates c = row_of({0.5, 0.3, 0.2});
  softmax(c);
  EXPECT_EQ(draw(c, 0), 0u);
  EXPECT_EQ(draw(c, 0.499), 0u);
  EXPECT_EQ(draw(c, 0.501), 1u);
  EXPECT_EQ(draw(c, 0.801), 2u);
  EXPECT_EQ(draw(c, 1 - 0x1p-53), 2u);
}

// Every repetition, found the slow way.
std::vector<std::pair<int32_t, float>> dry_by_definition(const std::vector<int32_t>& h, const DryParams& params,
                                                         size_t limit) {
  std::vector<std::pair<int32_t, float>> result;
  for (int32_t token = 0; token < 10; ++token) {
    size_t longest = 0;
    bool found = false;
    for (size_t j = 1; j < h.size(); ++j) {  // h[j] == token follows a copy of the suffix that ends at j - 1
      if (h[j] != token) continue;
      size_t length = 0;
      while (length < j && h[j - 1 - length] == h[h.size() - 1 - length]) ++length;
      length = std::min(length, limit);
      if (length > 0) found = true, longest = std::max(longest, length);
    }
    if (!found || longest < static_cast<size_t>(params.allowed_length)) continue;
    result.emplace_back(token,
                        params.multiplier * static_cast<float>(std::pow(params.base, longest - params.allowed_length)));
  }
  return result;
}

TEST(Dry, EqualsTheDefinition) {
  const DryParams params{0.8f, 1.75f, 2};
  std::mt19937 engine(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> history(engine() % 60);
    for (int32_t& token : history) token = static_cast<int32_t>(engine() % 3);
    const auto expected = dry_by_definition(history, params, history.size());
    const auto found = dry_penalties(history, params, {});
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i].first);
      EXPECT_NEAR(found[i].second / expected[i].second, 1, 1e-5);
    }
  }
}

TEST(Dry, BreakersEndARepetition) {
  const DryParams params{1, 2, 1};
  const std::vector<int32_t> history{1, 2, 3, 4, 5, 1, 2, 3};  // 4 would go on with 1 2 3
  EXPECT_THAT(dry_penalties(history, params, {}), ElementsAre(Pair(4, 4.0f)));
  DryBreakers breakers;
  breakers.sequences.emplace(2, std::vector<int32_t>{});
  EXPECT_THAT(dry_penalties(history, params, breakers), ElementsAre(Pair(4, 1.0f)));  // only "3" is repeated
  breakers.sequences.emplace(1, std::vector<int32_t>{2, 3});
  EXPECT_THAT(dry_penalties(history, params, breakers), ElementsAre(Pair(4, 1.0f)));  // the newer breaker counts
  DryBreakers last;
  last.sequences.emplace(3, std::vector<int32_t>{});
  EXPECT_THAT(dry_penalties(history, params, last), IsEmpty());
  DryBreakers pair;
  pair.sequences.emplace(1, std::vector<int32_t>{2});
  EXPECT_THAT(dry_penalties(history, params, pair), ElementsAre(Pair(4, 1.0f)));
}

TEST(Dry, LongRepetitionsStayFinite) {
  const std::vector<int32_t> history(100000, 1);
  const auto found = dry_penalties(history, {1, 1.75f, 2}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(std::isfinite(found[0].second));
  EXPECT_GT(found[0].second, 1e30f);
}

TEST(Mirostat, V2DropsSurprisingTokens) {
  Candidates c = row_of({0.5, 0.25, 0.125, 0.125});  // surprise 1, 2, 3, 3 bits
  mirostat_v2(c, 2.5);
  EXPECT_THAT(tokens(c), ElementsAre(0, 1));
  mirostat_v2(c, -100);
  EXPECT_THAT(tokens(c), ElementsAre(0));
}

TEST(Mirostat, V1KeepsAtLeastOneAndFollowsTheEstimate) {
  std::vector<double> zipf;
  for (int i = 1; i <= 1000; ++i) zipf.push_back(std::pow(i, -1.3));
  const double s = 1.3, epsilon = 0.3;
  for (const double mu : {1.0, 4.0, 10.0}) {
    Candidates c = row_of(zipf);
    mirostat_v1(c, mu, 1000);
    const double k = std::pow(epsilon * std::pow(2, mu) / (1 - std::pow(1000, -epsilon)), 1 / s);
    EXPECT_NEAR(static_cast<double>(c.items.size()), std::max(1.0, std::floor(k)), 1) << mu;
  }
  for (const double mu : {-1e9, 1e9}) {
    Candidates flat = row_of({1, 1, 1, 1});
    mirostat_v1(flat, mu, 4);
    EXPECT_GE(flat.items.size(), 1u);
  }
}

TEST(AdaptiveP, PeaksAtTheTarget) {
  Candidates c = row_of({0.5, 0.3, 0.2});
  softmax(c);
  adaptive_p(c, 0.3);
  EXPECT_NEAR(c.items[1].logit, 5, 1e-5);
  const double d = 0.2 / 0.3;
  EXPECT_NEAR(c.items[0].logit, 5 - 10 * d * d / (1 + d), 1e-5);
  EXPECT_NEAR(c.items[0].p, 0.5, 1e-6);
}

}  // namespace
}  // namespace loci
