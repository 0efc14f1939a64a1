// The sampler as a whole: order of the steps, greedy decoding, distributions, state, edge values, log-probabilities.
#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/error.h"

namespace loci {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams neutral() {
  SamplingParams p;
  p.temperature = 1;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  p.seed = 42;
  return p;
}

std::vector<float> logs(const std::vector<double>& weights) {
  std::vector<float> row;
  for (const double w : weights) row.push_back(static_cast<float>(std::log(w)));
  return row;
}

// Relative frequencies of n draws, each accepted.
std::vector<double> frequencies(Sampler sampler, const std::vector<float>& row, int n) {
  std::vector<double> counts(row.size());
  for (int i = 0; i < n; ++i) {
    const int32_t token = sampler.sample(row).value();
    counts[static_cast<size_t>(token)] += 1;
    sampler.accept(token, false);
  }
  for (double& count : counts) count /= n;
  return counts;
}

void expect_distribution(const SamplingParams& params, const std::vector<float>& row,
                         const std::vector<double>& expected) {
  constexpr int kDraws = 100000;
  const std::vector<double> found = frequencies(Sampler(params, SamplerVocab{}), row, kDraws);
  double chi2 = 0;
  int cells = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(found[i], 0) << "token " << i;
      continue;
    }
    chi2 += kDraws * (found[i] - expected[i]) * (found[i] - expected[i]) / expected[i];
    ++cells;
  }
  // Mean + 5 standard deviations of the chi-square distribution.
  EXPECT_LT(chi2, cells + 5 * std::sqrt(2.0 * std::max(cells, 1)));
}

TEST(Sampler, DrawsByTheSoftmax) { expect_distribution(neutral(), logs({0.5, 0.2, 0.2, 0.1}), {0.5, 0.2, 0.2, 0.1}); }

TEST(Sampler, TemperatureReshapes) {
  SamplingParams p = neutral();
  p.temperature = 0.5f;
  expect_distribution(p, logs({0.5, 0.3, 0.2}), {0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38});
}

TEST(Sampler, TruncationRenormalises) {
  SamplingParams p = neutral();
  p.top_k = 2;
  expect_distribution(p, logs({0.2, 0.5, 0.3}), {0, 0.625, 0.375});
  p = neutral();
  p.top_p = 0.75f;
  expect_distribution(p, logs({0.2, 0.5, 0.3}), {0, 0.625, 0.375});
  p = neutral();
  p.min_p = 0.5f;
  expect_distribution(p, logs({0.2, 0.5, 0.3}), {0, 0.625, 0.375});
}

TEST(Sampler, XtcHappensWithItsProbability) {
  SamplingParams p = neutral();
  p.xtc_probability = 0.25f;
  p.xtc_threshold = 0.25f;
  // Three quarters of the draws see the whole row, one quarter {0.3, 0.2}.
  expect_distribution(p, logs({0.5, 0.3, 0.2}), {0.375, 0.75 * 0.3 + 0.25 * 0.6, 0.75 * 0.2 + 0.25 * 0.4});
  p.xtc_probability = 1;
  expect_distribution(p, logs({0.5, 0.3, 0.2}), {0, 0.6, 0.4});
}

TEST(Sampler, OffMeansIdentity) {
  // All steps named, none active: the same tokens as with no steps at all.
  SamplingParams with = neutral(), without = neutral();
  without.samplers.clear();
  std::mt19937 engine(3);
  Sampler a(with, SamplerVocab{}), b(without, SamplerVocab{});
  for (int i = 0; i < 200; ++i) {
    std::vector<float> row(50);
    for (float& x : row) x = std::normal_distribution<float>(0, 3)(engine);
    const auto token = a.sample(row);
    EXPECT_EQ(token, b.sample(row));
    a.accept(*token, false);
    b.accept(*token, false);
  }
}

TEST(Sampler, OrderOfStepsMatters) {
  const std::vector<float> row = logs({0.4, 0.3, 0.2, 0.1});
  SamplingParams p = neutral();
  p.top_p = 0.35f;
  p.temperature = 100;  // nearly uniform: every token has 0.25
  p.samplers = {"top_p", "temperature"};
  expect_distribution(p, row, {1, 0, 0, 0});
  p.samplers = {"temperature", "top_p"};
  EXPECT_NEAR(frequencies(Sampler(p, SamplerVocab{}), row, 1000)[1], 0.5, 0.1);
}

TEST(Sampler, SameSeedSameTokensWhateverElseRuns) {
  SamplingParams p = neutral();
  const std::vector<float> row = logs({0.3, 0.3, 0.2, 0.2});
  Sampler a(p, SamplerVocab{}), b(p, SamplerVocab{});
  std::vector<int32_t> first, second;
  for (int i = 0; i < 100; ++i) first.push_back(*a.sample(row));
  Sampler other(p, SamplerVocab{});
  for (int i = 0; i < 100; ++i) {
    if (i % 3 == 0) (void)other.sample(row);
    // What earlier rows looked like does not shift later draws.
    const int32_t token = i < 50 ? b.sample(logs({1, 1, 1, 1})).value() : b.sample(row).value();
    second.push_back(i < 50 ? first[i] : token);
  }
  EXPECT_EQ(first, second);
  p.seed = 43;
  Sampler c(p, SamplerVocab{});
  std::vector<int32_t> third;
  for (int i = 0; i < 100; ++i) third.push_back(*c.sample(row));
  EXPECT_NE(first, third);
}

TEST(Sampler, ReportsItsSeed) {
  SamplingParams p = neutral();
  EXPECT_EQ(Sampler(p, SamplerVocab{}).seed(), 42u);
  p.seed = -1;
  const Sampler random(p, SamplerVocab{});
  Sampler a = random;
  p.seed = static_cast<int64_t>(random.seed());
  Sampler b(p, SamplerVocab{});
  const std::vector<float> row = logs({0.3, 0.3, 0.2, 0.2});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(a.sample(row), b.sample(row));
}

TEST(Sampler, GreedyTakesTheBestWithTheLowestId) {
  SamplingParams p;
  p.temperature = 0;
  Sampler s(p, SamplerVocab{});
  EXPECT_EQ(s.sample(std::vector<float>{1, 5, 5, 2}), 1);
  EXPECT_EQ(s.sample(std::vector<float>{kNan, 5, kInf, 2}), 2);
  p.samplers = {"top_k"};  // greedy also when the temperature step is not named
  EXPECT_EQ(Sampler(p, SamplerVocab{}).sample(std::vector<float>{1, 5, 5, 2}), 1);
}

TEST(Sampler, GreedyHonoursPenaltiesAndXtc) {
  SamplingParams p;
  p.temperature = 0;
  p.repeat_penalty = 2;
  Sampler s(p, SamplerVocab{});
  s.accept(1, true);
  EXPECT_EQ(s.sample(std::vector<float>{3, 5, 1}), 0);
  p = SamplingParams{};
  p.temperature = 0;
  p.xtc_probability = 1;
  p.xtc_threshold = 0.2f;
  EXPECT_EQ(Sampler(p, SamplerVocab{}).sample(logs({0.5, 0.3, 0.1, 0.1})), 1);
}

TEST(Sampler, PenaltiesLookAtTheLastN) {
  SamplingParams p = neutral();
  p.temperature = 0;
  p.presence_penalty = 10;
  p.repeat_last_n = 2;
  Sampler s(p, SamplerVocab{});
  const std::vector<float> row{5, 4, 3};
  s.accept(0, true);
  EXPECT_EQ(s.sample(row), 1);
  s.accept(1, false);
  EXPECT_EQ(s.sample(row), 2);
  s.accept(2, false);  // 0 has left the window
  EXPECT_EQ(s.sample(row), 0);
  p.repeat_last_n = -1;
  Sampler whole(p, SamplerVocab{});
  for (const int32_t token : {0, 1, 1, 1}) whole.accept(token, true);
  EXPECT_EQ(whole.sample(row), 2);
  p.repeat_last_n = 0;
  Sampler none(p, SamplerVocab{});
  for (const int32_t token : {0, 1, 1, 1}) none.accept(token, true);
  EXPECT_EQ(none.sample(row), 0);
}

TEST(Sampler, DryStopsARepetition) {
  SamplingParams p;
  p.temperature = 0;
  p.dry_multiplier = 10;
  Sampler s(p, SamplerVocab{});
  for (const int32_t token : {1, 2, 3, 4, 1, 2}) s.accept(token, true);
  const std::vector<float> row{0, 0, 0, 5, 1};
  EXPECT_EQ(s.sample(row), 4);
  SamplerVocab vocab;
  vocab.breakers.sequences.emplace(2, std::vector<int32_t>{});
  Sampler broken(p, vocab);
  for (const int32_t token : {1, 2, 3, 4, 1, 2}) broken.accept(token, true);
  EXPECT_EQ(broken.sample(row), 3);
}

TEST(Sampler, BiasesAndBans) {
  SamplingParams p;
  p.temperature = 0;
  p.logit_bias = {{1, 10.0f}, {2, -kInf}};
  Sampler s(p, SamplerVocab{});
  EXPECT_EQ(s.sample(std::vector<float>{3, 0, 99}), 1);
  p = SamplingParams{};
  p.temperature = 0;
  SamplerVocab vocab;
  vocab.end_of_generation = {0};
  vocab.suppressed = {1, 1000};
  EXPECT_EQ(Sampler(p, vocab).sample(std::vector<float>{3, 9, 2}), 0);
  p.ignore_eos = true;
  EXPECT_EQ(Sampler(p, vocab).sample(std::vector<float>{3, 9, 2}), 2);
  p.logit_bias = {{2, -kInf}};
  EXPECT_EQ(Sampler(p, vocab).sample(std::vector<float>{3, 9, 2}), std::nullopt);
}

TEST(Sampler, MirostatHoldsTheSurprise) {
  std::vector<double> zipf;
  for (int i = 1; i <= 2000; ++i) zipf.push_back(1.0 / i);
  double total = 0;
  for (const double w : zipf) total += w;
  const std::vector<float> row = logs(zipf);
  for (const int version : {1, 2}) {
    SamplingParams p = neutral();
    p.mirostat = version;
    p.mirostat_tau = 4;
    Sampler s(p, SamplerVocab{});
    double surprise = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      const int32_t token = s.sample(row).value();
      if (i >= 500) surprise -= std::log2(zipf[token] / total);
    }
    // The controlled quantity is the surprise within the kept set, which lies below that in the whole row.
    EXPECT_NEAR(surprise / (kDraws - 500), 5, 1.2) << version;
  }
}

TEST(Sampler, AdaptivePSteersTowardsItsTarget) {
  const std::vector<float> row = logs({0.6, 0.2, 0.1, 0.05, 0.05});
  const std::vector<double> prob{0.6, 0.2, 0.1, 0.05, 0.05};
  double low = 0, high = 0;
  for (const float target : {0.15f, 0.6f}) {
    SamplingParams p = neutral();
    p.adaptive_target = target;
    Sampler s(p, SamplerVocab{});
    double mean = 0;
    for (int i = 0; i < 2000; ++i) mean += prob[s.sample(row).value()] / 2000;
    (target < 0.3f ? low : high) = mean;
  }
  EXPECT_NEAR(low, 0.15, 0.1);
  EXPECT_NEAR(high, 0.5, 0.1);
}

TEST(Sampler, RowsWithoutAUsableLogitGiveNothing) {
  for (const auto& row : {std::vector<float>{kNan, kNan}, std::vector<float>{-kInf, -kInf}, std::vector<float>{}}) {
    for (const int mirostat : {0, 1, 2}) {
      for (const float temp : {0.0f, 1.0f}) {
        SamplingParams p;
        p.mirostat = mirostat;
        p.temperature = temp;
        p.repeat_penalty = 1.1f;
        p.dry_multiplier = 1;
        Sampler s(p, SamplerVocab{});
        s.accept(0, true);
        EXPECT_EQ(s.sample(row), std::nullopt);
      }
    }
  }
}

// Every step alone and all together, over awkward rows and edge values: a token of the row, or nothing.
TEST(Sampler, AwkwardRowsThroughEveryChain) {
  const std::vector<std::vector<float>> rows{{kNan, 1, 2, kNan}, {kInf, 1, 2, 3},       {-kInf, -kInf, -kInf, 0},
                                             {5, 5, 5, 5},       {1e38f, -1e38f, 0, 1}, {-0.0f, 0.0f, 0, 0}};
  std::vector<std::vector<std::string>> chains;
  for (const std::string& name : SamplingParams{}.samplers) chains.push_back({name});
  chains.push_back(SamplingParams{}.samplers);
  chains.emplace_back();
  std::vector<std::string> reversed = SamplingParams{}.samplers;
  std::reverse(reversed.begin(), reversed.end());
  chains.push_back(reversed);
  for (const auto& row : rows) {
    for (const auto& chain : chains) {
      for (const float temp : {0.0f, 1e-9f, 2.0f, 1e9f}) {
        for (const float p : {0.0f, 1e-9f, 0.5f, 1.0f}) {
          for (const int mirostat : {0, 1, 2}) {
            SamplingParams params;
            params.samplers = chain;
            params.temperature = temp;
            params.dynatemp_range = p;
            params.top_k = p == 0 ? 1 : 1000000000;
            params.top_p = params.min_p = params.typical_p = p;
            params.top_n_sigma = p;
            params.xtc_probability = p;
            params.xtc_threshold = p / 10;
            params.repeat_penalty = 1.5f;
            params.frequency_penalty = -2;
            params.dry_multiplier = 1;
            params.mirostat = mirostat;
            params.adaptive_target = p - 0.25f;
            params.seed = 1;
            ASSERT_EQ(check(params, 4), "");
            Sampler s(params, SamplerVocab{});
            for (const int32_t token : {0, 1, 0, 1, 0, 3}) s.accept(token, true);
            for (int i = 0; i < 3; ++i) {
              const auto token = s.sample(row);
              ASSERT_TRUE(token && *token >= 0 && *token < 4);
              EXPECT_TRUE(row[*token] > -kInf);  // neither NaN nor -inf
              s.accept(*token, false);
            }
          }
        }
      }
    }
  }
}

TEST(Check, NamesTheFieldTheExpectationAndTheFinding) {
  EXPECT_EQ(check(SamplingParams{}, 100), "");
  const auto with = [](auto change) {
    SamplingParams p;
    change(p);
    return check(p, 100);
  };
  using P = SamplingParams;
  EXPECT_EQ(with([](P& p) { p.temperature = kNan; }), "temp: expected a finite number >= 0, found nan");
  EXPECT_EQ(with([](P& p) { p.temperature = -1; }), "temp: expected a finite number >= 0, found -1");
  EXPECT_EQ(with([](P& p) { p.temperature = 1e9f; }), "");
  for (const int32_t k : {-1, 0, 1, 1000000000}) EXPECT_EQ(with([&](P& p) { p.top_k = k; }), "");
  for (const float x : {0.0f, 1e-9f, 1.0f}) EXPECT_EQ(with([&](P& p) { p.top_p = x; }), "");
  for (const float x : {-1.0f, 1.5f, kNan}) EXPECT_THAT(with([&](P& p) { p.top_p = x; }), HasSubstr("top_p: expected"));
  EXPECT_THAT(with([](P& p) { p.min_p = 2; }), HasSubstr("found 2"));
  EXPECT_THAT(with([](P& p) { p.typical_p = -1; }), HasSubstr("typical_p"));
  EXPECT_THAT(with([](P& p) { p.repeat_penalty = 0; }), HasSubstr("repeat_penalty"));
  EXPECT_THAT(with([](P& p) { p.repeat_last_n = -2; }), HasSubstr("repeat_last_n"));
  EXPECT_THAT(with([](P& p) { p.mirostat = 3; }), HasSubstr("mirostat"));
  EXPECT_THAT(with([](P& p) { p.adaptive_decay = 1; }), HasSubstr("adaptive_decay"));
  EXPECT_THAT(with([](P& p) { p.seed = -7; }), HasSubstr("seed"));
  EXPECT_THAT(with([](P& p) { p.logit_bias = {{100, 1.0f}}; }), HasSubstr("from 0 to 99, found 100"));
  EXPECT_THAT(with([](P& p) { p.logit_bias = {{5, kNan}}; }), HasSubstr("token 5"));
  EXPECT_EQ(with([](P& p) { p.logit_bias = {{5, -kInf}}; }), "");
  EXPECT_THAT(with([](P& p) { p.samplers = {"top_q"}; }), HasSubstr("found 'top_q'"));
}

TEST(StepNames, AreParsed) {
  EXPECT_EQ(samplers_from_letters("edskypmxt"), SamplingParams{}.samplers);
  EXPECT_EQ(samplers_from_names("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"),
            SamplingParams{}.samplers);
  EXPECT_THAT(samplers_from_names(" top-k ; temp;typical_p;"), ElementsAre("top_k", "temperature", "typ_p"));
  EXPECT_THAT(samplers_from_names(""), IsEmpty());
  EXPECT_THROW(samplers_from_names("top_k;foo"), Error);
  EXPECT_THROW(samplers_from_letters("kz"), Error);
}

TEST(TopLogprobs, AreSortedAndHoldTheChosenToken) {
  const std::vector<float> row = logs({0.1, 0.4, 0.2, 0.2, 0.1});
  const std::vector<TokenProb> top = top_logprobs(row, 3, 4);
  ASSERT_EQ(top.size(), 4u);
  EXPECT_THAT((std::vector<int32_t>{top[0].token, top[1].token, top[2].token, top[3].token}), ElementsAre(1, 2, 3, 4));
  EXPECT_NEAR(top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_NEAR(top[3].logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(top_logprobs(row, 3, 2).size(), 3u);
  EXPECT_EQ(top_logprobs(row, 0, 2).size(), 1u);
  EXPECT_EQ(top_logprobs(row, 99, -1).size(), 5u);
  EXPECT_THAT(top_logprobs(std::vector<float>{kNan, kNan}, 2, 0), IsEmpty());
  const std::vector<TokenProb> with_nan = top_logprobs(std::vector<float>{kNan, 0, 0}, 5, 0);
  ASSERT_EQ(with_nan.size(), 3u);
  EXPECT_NEAR(with_nan[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(with_nan[2].logprob, -kInf);
}

}  // namespace
}  // namespace loci
