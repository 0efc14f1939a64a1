// Strict rejection sampling: exact by enumeration, and by chi-square through the function that draws.
#include "engine/spec/rejection.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/engine/spec/chi_square.h"

namespace loci {
namespace {

using Distribution = std::vector<double>;

constexpr DraftRule kRules[] = {DraftRule::kIndependent, DraftRule::kWithoutReplacement, DraftRule::kFixed};

Distribution random_distribution(int n, std::mt19937& random, bool with_zero) {
  Distribution p(static_cast<size_t>(n));
  double sum = 0;
  for (double& x : p) sum += x = std::uniform_real_distribution<double>(0.01, 1)(random);
  if (with_zero) sum -= p[1], p[1] = 0;
  for (double& x : p) x /= sum;
  return p;
}

// Calls visit(siblings, probability) for every way to draw `n` siblings.
void for_each_draw(const Distribution& q, DraftRule rule, int n,
                   const std::function<void(const std::vector<int32_t>&, double)>& visit) {
  if (rule == DraftRule::kFixed) {
    std::vector<int32_t> siblings;
    for (int i = 0; i < n; ++i) siblings.push_back((3 * i + 1) % static_cast<int>(q.size()));
    return visit(siblings, 1);
  }
  std::vector<int32_t> siblings;
  const std::function<void(double, double)> draw = [&](double probability, double left) {
    if (static_cast<int>(siblings.size()) == n) return visit(siblings, probability);
    for (size_t x = 0; x < q.size(); ++x) {
      double chance = q[x];
      double next_left = left;
      if (rule == DraftRule::kWithoutReplacement) {
        bool taken = false;
        for (const int32_t s : siblings) taken = taken || static_cast<size_t>(s) == x;
        if (taken) continue;
        chance /= left, next_left -= q[x];
      }
      if (chance <= 0) continue;
      siblings.push_back(static_cast<int32_t>(x));
      draw(probability * chance, next_left);
      siblings.pop_back();
    }
  };
  draw(1, 1);
}

struct Outcome {
  Distribution tokens;
  double accepted = 0;  // probability that some sibling was
};

Outcome enumerate(const Distribution& p, const Distribution& q, DraftRule rule, int n_siblings) {
  Outcome outcome{Distribution(p.size(), 0.0)};
  for_each_draw(q, rule, n_siblings, [&](const std::vector<int32_t>& siblings, double probability) {
    SiblingTrial trial(p, q, rule);
    for (const int32_t token : siblings) {
      const double a = trial.acceptance(token);
      outcome.tokens[static_cast<size_t>(token)] += probability * a;
      outcome.accepted += probability * a;
      probability *= 1 - a;
      if (probability <= 0) return;
      trial.reject(token);
    }
    for (size_t x = 0; x < p.size(); ++x) outcome.tokens[x] += probability * trial.rest()[x];
  });
  return outcome;
}

void expect_equal(const Distribution& found, const Distribution& expected, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << "token " << i;
}

TEST(Rejection, WorkedExample) {
  const Distribution p{.5, .3, .2}, q{.2, .7, .1};
  EXPECT_NEAR(enumerate(p, q, DraftRule::kIndependent, 1).accepted, 0.6, 1e-12);
  SiblingTrial trial(p, q, DraftRule::kIndependent);
  trial.reject(1);
  expect_equal({trial.rest().begin(), trial.rest().end()}, {.75, 0, .25}, 1e-12);
  const Outcome independent = enumerate(p, q, DraftRule::kIndependent, 2);
  EXPECT_NEAR(independent.accepted, 0.72, 1e-12);
  expect_equal(independent.tokens, p, 1e-12);
  const Outcome without = enumerate(p, q, DraftRule::kWithoutReplacement, 2);
  EXPECT_NEAR(without.accepted, 0.9666667, 1e-7);
  expect_equal(without.tokens, p, 1e-12);
}

// The negative control of the specification: a rule that passes over a repeated sibling is wrong.
TEST(Rejection, SkippingDuplicatesWouldBeWrong) {
  const Distribution p{.5, .3, .2}, q{.2, .7, .1};
  Distribution tokens(3, 0.0);
  for_each_draw(q, DraftRule::kIndependent, 2, [&](const std::vector<int32_t>& siblings, double probability) {
    SiblingTrial trial(p, q, DraftRule::kIndependent);
    for (size_t s = 0; s < siblings.size(); ++s) {
      if (s > 0 && siblings[s] == siblings[0]) continue;
      const double a = trial.acceptance(siblings[s]);
      tokens[static_cast<size_t>(siblings[s])] += probability * a;
      probability *= 1 - a;
      if (probability > 0) trial.reject(siblings[s]);
    }
    for (size_t x = 0; x < 3; ++x) tokens[x] += probability * trial.rest()[x];
  });
  expect_equal(tokens, {.49, .30, .21}, 1e-9);
}

TEST(Rejection, ExactByEnumeration) {
  std::mt19937 random(1);
  for (const DraftRule rule : kRules) {
    for (int round = 0; round < 20; ++round) {
      const Distribution p = random_distribution(5, random, round % 3 == 1);
      const Distribution q = random_distribution(5, random, round % 3 == 2);
      for (int n = 0; n <= 3; ++n) expect_equal(enumerate(p, q, rule, n).tokens, p, 1e-12);
    }
  }
}

// Two places: what the second is drawn from depends on the first token; the pairs come out as the target has them.
TEST(Rejection, ExactByEnumerationToDepthTwo) {
  std::mt19937 random(2);
  for (const DraftRule rule : kRules) {
    const Distribution p = random_distribution(5, random, false), q = random_distribution(5, random, false);
    std::vector<Distribution> next_p, next_q;
    for (int i = 0; i < 5; ++i) {
      next_p.push_back(random_distribution(5, random, i == 2));
      next_q.push_back(random_distribution(5, random, i == 3));
    }
    const Distribution first = enumerate(p, q, rule, 2).tokens;
    for (size_t a = 0; a < 5; ++a) {
      const Distribution second = enumerate(next_p[a], next_q[a], rule, 2).tokens;
      for (size_t b = 0; b < 5; ++b) EXPECT_NEAR(first[a] * second[b], p[a] * next_p[a][b], 1e-12);
    }
  }
}

TEST(Rejection, EqualDistributionsAcceptAlways) {
  std::mt19937 random(3);
  const Distribution p = random_distribution(5, random, false);
  for (const DraftRule rule : {DraftRule::kIndependent, DraftRule::kWithoutReplacement}) {
    EXPECT_NEAR(enumerate(p, p, rule, 1).accepted, 1, 1e-12);
  }
  // A rejection that rounding alone can bring about draws from the target.
  SiblingTrial trial(p, p, DraftRule::kIndependent);
  trial.reject(0);
  expect_equal({trial.rest().begin(), trial.rest().end()}, p, 1e-12);
}

// Draws siblings from `q`, chooses with `believed_q` in the formula, counts.
std::vector<int64_t> simulate(const Distribution& p, const Distribution& q, const Distribution& believed_q,
                              DraftRule rule, int n_siblings, int n_draws) {
  std::mt19937_64 random(5);
  const auto uniform = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  std::vector<int64_t> counts(p.size(), 0);
  for (int i = 0; i < n_draws; ++i) {
    std::vector<int32_t> siblings;
    Distribution left = q;
    for (int s = 0; s < n_siblings; ++s) {
      siblings.push_back(rule == DraftRule::kFixed ? s : draw_weighted(left, uniform()));
      if (rule == DraftRule::kWithoutReplacement) left[static_cast<size_t>(siblings.back())] = 0;
    }
    const std::vector<double> accept{uniform(), uniform(), uniform()};
    const Choice choice = choose_by_rejection(SiblingTrial(p, believed_q, rule), siblings, accept, uniform());
    if (choice.sibling) {
      EXPECT_EQ(siblings[*choice.sibling], choice.token);
    }
    ++counts[static_cast<size_t>(choice.token)];
  }
  return counts;
}

TEST(Rejection, ChiSquareOfDraws) {
  std::mt19937 random(4);
  const Distribution p = random_distribution(8, random, true), q = random_distribution(8, random, false);
  for (const DraftRule rule : kRules) {
    for (int n = 1; n <= 3; ++n) {
      EXPECT_GT(test::chi_square_p(simulate(p, q, q, rule, n, 60000), p), 0.01) << "siblings " << n;
    }
  }
}

// Negative control: a drafter that draws at temperature 1/2 but reports its distribution at temperature 1.
TEST(Rejection, ChiSquareFindsAWrongDraftDistribution) {
  std::mt19937 random(4);
  const Distribution p = random_distribution(8, random, false), believed = random_distribution(8, random, false);
  Distribution sharp = believed;
  double sum = 0;
  for (double& x : sharp) x *= x;
  for (const double x : sharp) sum += x;
  for (double& x : sharp) x /= sum;
  for (const DraftRule rule : {DraftRule::kIndependent, DraftRule::kWithoutReplacement}) {
    EXPECT_LT(test::chi_square_p(simulate(p, sharp, believed, rule, 2, 60000), p), 1e-6);
  }
}

TEST(Rejection, WeightedDraws) {
  const Distribution weights{0, 1, 0, 3, 0};
  EXPECT_EQ(draw_weighted(weights, 0), 1);
  EXPECT_EQ(draw_weighted(weights, 0.2499), 1);
  EXPECT_EQ(draw_weighted(weights, 0.25), 3);
  EXPECT_EQ(draw_weighted(weights, 1), 3);
}

TEST(ChiSquare, KnownValues) {
  EXPECT_NEAR(test::chi_square_tail(3.841458820694124, 1), 0.05, 1e-9);
  EXPECT_NEAR(test::chi_square_tail(18.307038053275146, 10), 0.05, 1e-9);
  EXPECT_NEAR(test::chi_square_tail(2.0, 4), 0.7357588823428847, 1e-9);
}

}  // namespace
}  // namespace loci
