// What steers the number of drafts: costs, acceptance, and the choice made of them.
#include <gtest/gtest.h>

#include "engine/spec/acceptance.h"
#include "engine/spec/cost_curve.h"
#include "engine/spec/speculator.h"

namespace loci {
namespace {

TEST(CostCurve, InterpolatesAndExtrapolates) {
  CostCurve curve(0.5);
  EXPECT_FALSE(curve.known());
  curve.observe(1, 10);
  EXPECT_DOUBLE_EQ(curve.ms(1), 10);
  EXPECT_DOUBLE_EQ(curve.ms(3), 20);  // by the slope
  curve.observe(5, 18);
  EXPECT_DOUBLE_EQ(curve.ms(5), 18);
  EXPECT_DOUBLE_EQ(curve.ms(3), 14);
  EXPECT_DOUBLE_EQ(curve.ms(7), 28);
}

TEST(CostCurve, FollowsALoadedMachineAndForgetsHiccups) {
  CostCurve curve(0.5);
  for (int i = 0; i < 20; ++i) curve.observe(1, 10), curve.observe(4, 20);
  curve.observe(1, 1000);
  EXPECT_LT(curve.ms(1), 12);
  for (int i = 0; i < 60; ++i) curve.observe(4, 40);
  EXPECT_NEAR(curve.ms(4), 40, 1);
  EXPECT_GT(curve.ms(1), 12);  // the whole curve moved
}

TEST(CostCurve, IgnoresNonsense) {
  CostCurve curve(0.5);
  curve.observe(0, 5);
  curve.observe(1, 0);
  curve.observe(CostCurve::kMaxRows + 1, 5);
  EXPECT_FALSE(curve.known());
  curve.assume(8);
  EXPECT_DOUBLE_EQ(curve.ms(1), 8);
  curve.observe(2, 6);
  curve.assume(100);
  EXPECT_LT(curve.ms(1), 10);
}

TEST(Acceptance, LearnsByConfidence) {
  Acceptance acceptance(0.99);
  EXPECT_DOUBLE_EQ(acceptance.estimate(0.9f, 0.6, 4), 0.6);
  for (int i = 0; i < 100; ++i) acceptance.observe(0.9f, true), acceptance.observe(0.3f, i % 4 == 0);
  EXPECT_GT(acceptance.estimate(0.9f, 0.6, 4), 0.95);
  EXPECT_NEAR(acceptance.estimate(0.3f, 0.6, 4), 0.26, 0.05);
  EXPECT_NEAR(acceptance.mean(0.6, 4), 0.62, 0.05);
  EXPECT_DOUBLE_EQ(acceptance.estimate(0.999f, 0.5, 4), 0.5);
}

// A drafter that always drafts the same chain and notes how long it was allowed to become.
struct FakeDrafter : Drafter {
  FakeDrafter(double ms, int n) : ms_per_draft(ms), length(n) {}
  std::string_view name() const override { return "fake"; }
  bool serves(SpeculationMode) const override { return true; }
  void propose(std::span<DraftJob*> jobs) override {
    for (DraftJob* job : jobs) {
      ++n_asked;
      for (int i = 0; i < length && i < job->max_depth; ++i) {
        if (i > 0 && job->go_on && !job->go_on(job->tree)) break;
        job->tree.add(7, i - 1, 0.8f);
      }
    }
  }
  double first_draft_ms(const DraftJob&) const override { return ms_per_draft + catch_up_ms; }
  double next_draft_ms() const override { return ms_per_draft; }
  bool is_free() const override { return ms_per_draft == 0; }
  void forget(int64_t, std::span<const int32_t>) override {}

  double ms_per_draft, catch_up_ms = 0;
  int length, n_asked = 0;
};

class SpeculatorTest : public testing::Test {
 protected:
  void make(double ms_per_draft, int length = 16) {
    auto made = std::make_unique<FakeDrafter>(ms_per_draft, length);
    drafter = made.get();
    std::vector<std::unique_ptr<Drafter>> drafters;
    drafters.push_back(std::move(made));
    speculator = std::make_unique<Speculator>(std::move(drafters));
    params.mode = SpeculationMode::kAuto;
  }
  // Rows cost 10 ms for the first and `slope_ms` for each further one.
  void costs(double slope_ms) {
    for (int i = 0; i < 40; ++i) {
      for (int n = 1; n <= 20; ++n) speculator->note_step(n, 10 + slope_ms * (n - 1));
    }
  }
  int plan() {
    Speculator::Candidate candidate;
    candidate.job.key = 1;
    candidate.job.tokens = tokens;
    candidate.job.params = &params;
    candidate.job.max_depth = 32;
    candidate.tokens_left = 1000;
    candidate.n_predicted = 100;
    speculator->plan(std::span(&candidate, 1), 1);
    tree = candidate.job.tree;
    return tree.size();
  }
  void learn(bool right, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const int n = plan();
      // The shadow of a free draft counts as well.
      speculator->note_outcome(1, tree, right ? n - 1 : -1, right ? 7 : 8);
    }
  }

  FakeDrafter* drafter = nullptr;
  std::unique_ptr<Speculator> speculator;
  Speculation params;
  std::vector<int32_t> tokens{1, 2, 3};
  DraftTree tree;
};

TEST_F(SpeculatorTest, DraftsNothingBeforeAStepWasTimed) {
  make(0);
  EXPECT_EQ(plan(), 0);
  params.adaptive = false;
  EXPECT_EQ(plan(), 16);
}

TEST_F(SpeculatorTest, FreeDraftsThatAreRightGrowToTheLimit) {
  make(0);
  costs(1);
  learn(true, 50);
  EXPECT_EQ(plan(), 16);
  params.max_tokens = 5;
  EXPECT_EQ(plan(), 5);
  params.min_tokens = 6;
  EXPECT_EQ(plan(), 0);
}

TEST_F(SpeculatorTest, WrongDraftsEndAndComeBack) {
  make(0);
  costs(3);
  learn(false, 50);
  EXPECT_EQ(plan(), 0);
  learn(true, 100);  // seen without being run
  EXPECT_GT(plan(), 4);
}

TEST_F(SpeculatorTest, DraftsThatCostMoreThanTheyBringAreNotMade) {
  make(9);  // a draft costs almost a step
  costs(5);
  learn(true, 3);
  const int n_asked = drafter->n_asked;
  EXPECT_EQ(plan(), 0);
  EXPECT_EQ(drafter->n_asked, n_asked);
  make(1);
  costs(1);
  learn(true, 30);
  EXPECT_GT(plan(), 6);
}

TEST_F(SpeculatorTest, ALongCatchUpMustPay) {
  make(1);
  costs(1);
  learn(true, 30);
  drafter->catch_up_ms = 100;
  EXPECT_GT(plan(), 0);
  drafter->catch_up_ms = 1e6;
  EXPECT_EQ(plan(), 0);
}

// Before it has drafted once, the target's certainty says what a costly drafter is worth.
TEST_F(SpeculatorTest, CertaintyDecidesWhetherToBegin) {
  for (const float certainty : {0.5f, 0.98f}) {
    make(5);
    costs(1);
    drafter->catch_up_ms = 100;
    EXPECT_EQ(plan(), 0);
    EXPECT_EQ(drafter->n_asked, 0);
    EXPECT_TRUE(speculator->wants_certainty(1, params));
    for (int i = 0; i < 12; ++i) speculator->note_certainty(1, certainty);
    if (certainty > 0.9f) {
      EXPECT_GT(plan(), 0);
      learn(true, 40);
      EXPECT_FALSE(speculator->wants_certainty(1, params));
    } else {
      EXPECT_EQ(plan(), 0);
    }
  }
  make(0);
  costs(1);
  EXPECT_GT(plan(), 0);
  EXPECT_FALSE(speculator->wants_certainty(1, params));  // only free drafters
}

TEST_F(SpeculatorTest, CountsByPosition) {
  make(0, 4);
  params.adaptive = false;
  ASSERT_EQ(plan(), 4);
  speculator->note_outcome(1, tree, 1, 8);
  ASSERT_EQ(plan(), 4);
  speculator->note_outcome(1, tree, -1, 8);
  const SpeculationStats& stats = speculator->stats(1);
  EXPECT_EQ(stats.n_rounds, 2);
  EXPECT_EQ(stats.n_drafted, 8);
  EXPECT_EQ(stats.n_accepted, 2);
  EXPECT_EQ(stats.drafted_at, (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(stats.accepted_at, (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace loci
