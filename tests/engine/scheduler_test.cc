// Scheduler without a model: what a forward pass would read is checked against a plain model of the K/V memory, in
// which each slot says which token prefix wrote it.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "kernels/error.h"
#include "tests/support/reference_backend.h"
#include "tests/support/tiny_model.h"

namespace loci {
namespace {

constexpr int kHeadDim = 8;
const KvLayerShape kLayers[] = {{1, kHeadDim, KvFormat::kF32, KvFormat::kF32}};

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A scheduler and the memory it plans for. The "model" writes a number that stands for all tokens up to a slot into
// the slot's K, and the next token is a function of that number.
class World {
 public:
  explicit World(int n_pages, const SchedulerLimits& limits = {.max_sequences = 8}, int64_t swap_bytes = 0)
      : kv_(kLayers, config(swap_bytes), {.n_pages = n_pages}, *backend_), scheduler(limits, kv_, metrics) {}

  struct Options {
    int priority = 0;
    int n_generate = 4;
    bool cache_prompt = true;
  };
  Sequence* add(std::vector<int32_t> prompt, const Options& options) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = next_id_++;
    sequence->n_prompt = static_cast<int64_t>(prompt.size());
    sequence->tokens = std::move(prompt);
    sequence->priority = options.priority;
    sequence->cache_prompt = options.cache_prompt;
    Sequence* added = sequence.get();
    target_[added] = sequence->n_prompt + options.n_generate;
    scheduler.add(std::move(sequence), now_ms);
    return added;
  }
  Sequence* add(std::vector<int32_t> prompt) { return add(std::move(prompt), Options()); }

  Step plan() {
    Step step = scheduler.next_step(now_ms);
    for (Sequence* sequence : step.stuck) end(sequence);
    return step;
  }

  // Writes the rows of a step, as far as `n_rows` of them, then reads what attention would read.
  void compute(const Step& step, int64_t n_rows) {
    std::vector<float> k(static_cast<size_t>(n_rows) * kHeadDim);
    for (size_t i = 0; i < step.entries.size(); ++i) {
      const std::vector<float> sums = prefix_sums(step.entries[i]->tokens);
      for (int64_t row = step.batch.q_indptr[i]; row < std::min<int64_t>(n_rows, step.batch.q_indptr[i + 1]); ++row) {
        const auto position = static_cast<size_t>(step.batch.positions[static_cast<size_t>(row)]);
        std::fill_n(k.begin() + row * kHeadDim, kHeadDim, sums[position]);
      }
    }
    const std::span<const int64_t> slots(step.batch.slots.data(), static_cast<size_t>(n_rows));
    backend_->kv_store(kv_.layer(0), k.data(), kHeadDim, k.data(), kHeadDim, slots);
    if (n_rows < step.batch.n_rows()) return;
    for (size_t i = 0; i < step.entries.size(); ++i) {
      const std::vector<float> sums = prefix_sums(step.entries[i]->tokens);
      const int32_t* pages = step.batch.page_indices.data() + step.batch.page_indptr[i];
      const int32_t last_row = step.batch.q_indptr[i + 1] - 1;
      for (int32_t p = 0; p <= step.batch.positions[static_cast<size_t>(last_row)]; ++p) {
        ASSERT_EQ(stored(pages[p / kv_.page_size()], p % kv_.page_size()), sums[static_cast<size_t>(p)])
            << "sequence " << step.entries[i]->id << ", position " << p;
      }
    }
  }

  // One whole step that takes `ms`. Ends sequences that have all their tokens.
  Step run(double ms = 10) {
    Step step = plan();
    compute(step, step.batch.n_rows());
    now_ms += ms;
    scheduler.commit(step, ms);
    for (Sequence* sequence : step.entries) {
      if (sequence->n_pending() == 0) next_token(sequence);
    }
    scheduler.check_invariants();
    return step;
  }
  int run_until_idle(int most = 10000) {
    int n_steps = 0;
    while (!scheduler.idle() && n_steps < most) run(), ++n_steps;
    EXPECT_TRUE(scheduler.idle());
    return n_steps;
  }

  void next_token(Sequence* sequence) {
    if (static_cast<int64_t>(sequence->tokens.size()) >= target_[sequence]) return end(sequence);
    sequence->tokens.push_back(static_cast<int32_t>(prefix_sums(sequence->tokens).back()) % 50);
  }
  void end(Sequence* sequence, bool keep = true) {
    finished.push_back(sequence->id);
    answers[sequence->id] = sequence->tokens;
    target_.erase(sequence);
    scheduler.remove(sequence, keep && sequence->cache_prompt);
  }
  void fork(Sequence* parent, int n_generate) {
    auto child = std::make_unique<Sequence>();
    child->id = next_id_++;
    child->n_prompt = parent->n_prompt;
    child->tokens = parent->tokens;
    child->priority = parent->priority;
    child->cache_prompt = parent->cache_prompt;
    Sequence* added = child.get();
    target_[added] = static_cast<int64_t>(parent->tokens.size()) + n_generate;
    scheduler.fork(*parent, std::move(child));
    added->tokens.push_back(60 + static_cast<int32_t>(next_id_ % 30));  // another draw than the parent's
  }
  // All pages come back when nobody is left.
  void expect_nothing_lost() {
    kv_.clear();
    EXPECT_EQ(kv_.n_free_pages(), kv_.n_pages());
    EXPECT_EQ(kv_.stats().swapped_bytes, 0);
  }
  bool runs(const Sequence* sequence) const {
    const auto all = scheduler.sequences();
    return std::find(all.begin(), all.begin() + scheduler.n_running(), sequence) < all.begin() + scheduler.n_running();
  }

 private:
  static KvConfig config(int64_t swap_bytes) {
    KvConfig config;
    config.k_format = config.v_format = KvFormat::kF32;
    config.swap_bytes = swap_bytes;
    return config;
  }
  // For each position a number that depends on all tokens up to it.
  static std::vector<float> prefix_sums(const std::vector<int32_t>& tokens) {
    std::vector<float> sums;
    uint32_t hash = 17;
    for (const int32_t token : tokens) {
      hash = (hash ^ static_cast<uint32_t>(token)) * 2654435761u + 12345u;
      hash ^= hash >> 15;
      sums.push_back(static_cast<float>(hash >> 9));  // 23 bits: exact
    }
    return sums;
  }
  // K's first channel: tiles of 16 tokens, [head_dim][16].
  float stored(int32_t page, int offset) const {
    const auto* tile = reinterpret_cast<const float*>(kv_.layer(0).k_page(0, page)) + offset / 16 * 16 * kHeadDim;
    return tile[offset % 16];
  }

  std::unique_ptr<Backend> backend_ = test::make_reference_backend();
  KvManager kv_;
  RequestId next_id_ = 1;
  std::map<Sequence*, int64_t> target_;  // tokens at its end

 public:
  Metrics metrics;
  Scheduler scheduler;
  double now_ms = 0;
  std::vector<RequestId> finished;
  std::map<RequestId, std::vector<int32_t>> answers;
};

using test::random_tokens;

int64_t rows_of(const Step& step, const Sequence* sequence) {
  for (size_t i = 0; i < step.entries.size(); ++i) {
    if (step.entries[i] == sequence) return step.batch.q_indptr[i + 1] - step.batch.q_indptr[i];
  }
  return 0;
}

TEST(Scheduler, ComputesAPromptInChunks) {
  World world(64, {.n_ubatch = 100, .n_batch = 70, .max_sequences = 2});
  const Sequence* one = world.add(random_tokens(200, 1));
  EXPECT_EQ(rows_of(world.run(), one), 70);
  EXPECT_EQ(rows_of(world.run(), one), 70);
  EXPECT_EQ(rows_of(world.run(), one), 60);
  EXPECT_EQ(world.run_until_idle(), 4);
  EXPECT_EQ(world.finished, (std::vector<RequestId>{1}));
  world.expect_nothing_lost();
}

// T3.8: beside a decoding sequence a step takes as many prompt rows as fit the longest stall, and the decoding
// sequence is in each of them.
TEST(Scheduler, ALongPromptStallsOthersNoLongerThanSaid) {
  World world(256, {.n_ubatch = 512, .n_batch = 2048, .max_sequences = 4, .max_stall_ms = 50});
  const Sequence* talking = world.add(random_tokens(20, 1), {.n_generate = 500});
  world.run(25);
  const auto ms_of = [](const Step& step) { return 5.0 + static_cast<double>(step.batch.n_rows()); };
  const Sequence* lengthy = world.add(random_tokens(2000, 2));
  int n_steps = 0;
  while (lengthy->n_pending() > 0 && lengthy->n_computed() + 500 < 2000 && ++n_steps < 200) {
    Step step = world.plan();
    world.compute(step, step.batch.n_rows());
    const double ms = ms_of(step);
    world.now_ms += ms;
    world.scheduler.commit(step, ms);
    for (Sequence* s : step.entries) {
      if (s->n_pending() == 0) world.next_token(s);
    }
    EXPECT_EQ(rows_of(step, talking), 1);
    EXPECT_GE(rows_of(step, lengthy), Scheduler::kMinPrefillRows);
    EXPECT_LE(ms, 60);
  }
  EXPECT_LT(n_steps, 200);
}

TEST(StepCost, LearnsWhatRowsCost) {
  StepCost cost;
  for (int i = 0; i < 20; ++i) cost.add(0, 8, 40);
  for (int i = 0; i < 20; ++i) cost.add(100, 8, 40 + 100 * 3);
  EXPECT_NEAR(cost.ms_per_prefill_row(), 3, 0.01);
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows_within(340)), 100, 1);
  EXPECT_EQ(cost.prefill_rows_within(1), Scheduler::kMinPrefillRows);
  for (int i = 0; i < 40; ++i) cost.add(100, 8, 40 + 100 * 6);  // deeper in the context
  EXPECT_NEAR(cost.ms_per_prefill_row(), 6, 0.01);
}

TEST(Scheduler, MoreDecodingSequencesThanRowsTakeTurns) {
  World world(256, {.n_ubatch = 4, .n_batch = 64, .max_sequences = 10});
  std::vector<Sequence*> all;
  for (int i = 0; i < 10; ++i)
    all.push_back(world.add(random_tokens(1, static_cast<uint32_t>(i)), {.n_generate = 200}));
  for (int i = 0; i < 20; ++i) world.run();
  std::map<const Sequence*, int> n_served;
  for (int i = 0; i < 60; ++i) {
    const Step step = world.run();
    EXPECT_LE(step.batch.n_rows(), 4);
    for (const Sequence* s : step.entries) ++n_served[s];
  }
  EXPECT_EQ(n_served.size(), 10u);
  for (const auto& [sequence, n] : n_served) EXPECT_NEAR(n, 24, 1);
  world.run_until_idle();
}

TEST(Scheduler, AShortPromptPassesALongOne) {
  World world(256, {.n_ubatch = 64, .n_batch = 2048, .max_sequences = 4});
  const Sequence* lengthy = world.add(random_tokens(1000, 1));
  world.run();
  const Sequence* brief = world.add(random_tokens(30, 2));
  const Step step = world.run();
  EXPECT_EQ(rows_of(step, brief), 30);
  EXPECT_EQ(rows_of(step, lengthy), 34);
}

TEST(Scheduler, ALongPromptIsNotPassedForEver) {
  World world(512, {.n_ubatch = 64, .n_batch = 2048, .max_sequences = 8, .max_stall_ms = 0});
  const Sequence* lengthy = world.add(random_tokens(2000, 1));
  uint32_t seed = 10;
  int n_steps = 0;
  for (; lengthy->n_pending() > 1 && n_steps < 3000; ++n_steps) {
    for (int i = 0; i < 2; ++i) world.add(random_tokens(60, seed++), {.n_generate = 0});
    world.run(20);
  }
  EXPECT_LT(n_steps, 3000);
}

TEST(Scheduler, HigherClassesGoFirstUntilOthersHaveWaited) {
  World world(64, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 1, .ageing_ms = 100});
  for (int i = 0; i < 3; ++i) world.add(random_tokens(10, static_cast<uint32_t>(i)), {.priority = i, .n_generate = 2});
  world.run_until_idle();
  EXPECT_EQ(world.finished, (std::vector<RequestId>{3, 2, 1}));

  // One of class 0 against a stream of class 2: after 200 ms of waiting it is their equal, and older.
  World busy(64, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 1, .ageing_ms = 100});
  busy.add(random_tokens(10, 1), {.priority = 2});
  const Sequence* low = busy.add(random_tokens(10, 2), {.priority = 0});
  const RequestId low_id = low->id;
  uint32_t seed = 3;
  while (busy.finished.size() < 20) {
    if (busy.scheduler.n_waiting() < 2) busy.add(random_tokens(10, seed++), {.priority = 2});
    busy.run(10);
  }
  const auto place = std::find(busy.finished.begin(), busy.finished.end(), low_id) - busy.finished.begin();
  EXPECT_GT(place, 2);
  EXPECT_LT(place, 10);
}

TEST(Scheduler, AHigherClassTakesThePlaceOfALowerOne) {
  World world(64, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 2});
  const Sequence* batch_job = world.add(random_tokens(10, 1), {.priority = -1, .n_generate = 40});
  const Sequence* normal = world.add(random_tokens(10, 2), {.n_generate = 40});
  world.run();
  const Sequence* equal = world.add(random_tokens(10, 3), {.priority = -1});
  world.run();
  EXPECT_TRUE(world.runs(batch_job) && world.runs(normal));
  EXPECT_FALSE(world.runs(equal));
  const Sequence* urgent = world.add(random_tokens(10, 4), {.priority = 1});
  world.run();
  EXPECT_TRUE(world.runs(urgent) && world.runs(normal));
  EXPECT_FALSE(world.runs(batch_job));
  EXPECT_EQ(world.metrics.n_preempted_recompute, 1);
  world.run_until_idle();
  world.expect_nothing_lost();
}

TEST(Scheduler, TheYoungestOfTheLowestClassMakesWay) {
  World world(12, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 4});
  // Headroom lets three in; then they grow until the pages are gone.
  const Sequence* oldest = world.add(random_tokens(16, 1), {.n_generate = 100});
  world.run();
  const Sequence* low = world.add(random_tokens(1, 2), {.priority = -1, .n_generate = 100});
  world.run();
  const Sequence* young = world.add(random_tokens(1, 3), {.n_generate = 100});
  for (int i = 0; i < 200 && world.metrics.n_preempted_recompute == 0; ++i) world.run();
  EXPECT_TRUE(world.runs(oldest));
  EXPECT_FALSE(world.runs(low));
  for (int i = 0; i < 200 && world.metrics.n_preempted_recompute == 1; ++i) world.run();
  EXPECT_TRUE(world.runs(oldest));
  EXPECT_FALSE(world.runs(young));
  world.run_until_idle();
  EXPECT_EQ(world.answers.size(), 3u);
  world.expect_nothing_lost();
}

// T4.5: the pages of a prefix that waiting prompts share are computed once.
TEST(Scheduler, WaitingPromptsShareWhatOneOfThemComputes) {
  World world(256, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 16});
  const std::vector<int32_t> prefix = random_tokens(320, 1);
  for (uint32_t i = 0; i < 10; ++i) world.add(joined(prefix, random_tokens(9, 100 + i)));
  world.run_until_idle();
  EXPECT_EQ(world.metrics.n_cached_tokens, 9 * 320);
  EXPECT_EQ(world.metrics.n_prompt_tokens, 10 * 329);
  world.expect_nothing_lost();
}

TEST(Scheduler, SharingPromptsJoinAsSoonAsTheirPagesAreThere) {
  World world(256, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 16});
  const std::vector<int32_t> prefix = random_tokens(640, 1);
  const Sequence* lengthy = world.add(prefix);
  world.run();
  const Sequence* brief = world.add(joined({prefix.begin(), prefix.begin() + 128}, random_tokens(5, 2)));
  EXPECT_EQ(rows_of(world.run(), brief), 0);  // the long one has 64 of the 128 tokens
  EXPECT_EQ(rows_of(world.run(), brief), 5);
  EXPECT_GT(lengthy->n_pending(), 100);
}

TEST(Scheduler, LongestMatchGoesFirstUnlessOthersHaveWaited) {
  for (const bool waited : {false, true}) {
    World world(256, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 1});
    const std::vector<int32_t> known = random_tokens(64, 1);
    world.add(known);
    world.run_until_idle();
    world.add(random_tokens(3, 9), {.n_generate = 8});  // holds the only place for 80 ms
    world.run();
    if (waited) {
      world.add(random_tokens(10, 2));
      world.run(400);  // eight pages' worth
      world.add(joined(known, {7, 8}));
    } else {
      world.add(random_tokens(10, 2));
      world.add(joined(known, {7, 8}));
    }
    world.run_until_idle();
    EXPECT_EQ(world.finished, waited ? (std::vector<RequestId>{1, 2, 3, 4}) : (std::vector<RequestId>{1, 2, 4, 3}));
  }
}

TEST(Scheduler, WhatWasSwappedOutIsNotComputedAgain) {
  for (const Preemption how : {Preemption::kSwap, Preemption::kRecompute}) {
    World world(12, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 4, .preemption = how}, 1 << 20);
    for (uint32_t i = 0; i < 3; ++i) world.add(random_tokens(16, i), {.n_generate = 80});
    world.run_until_idle();
    if (how == Preemption::kSwap) {
      EXPECT_GT(world.metrics.n_preempted_swap, 0);
      EXPECT_EQ(world.metrics.n_swapped_in, world.metrics.n_preempted_swap);
      EXPECT_EQ(world.metrics.n_recomputed_tokens, 0);
    } else {
      EXPECT_GT(world.metrics.n_preempted_recompute, 0);
      EXPECT_EQ(world.metrics.n_preempted_swap, 0);
    }
    EXPECT_EQ(world.answers.size(), 3u);
    world.expect_nothing_lost();
  }
}

TEST(Scheduler, PagesHoldLessThanOneUnusedPagePerSequence) {
  World world(512, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 8});
  for (uint32_t i = 0; i < 8; ++i) world.add(random_tokens(300, i), {.n_generate = 50});
  while (!world.scheduler.idle()) {
    world.run();
    int64_t n_unused = 0;
    const auto all = world.scheduler.sequences();
    for (const Sequence* s : all) n_unused += static_cast<int64_t>(s->kv.pages.size()) * 16 - s->n_computed();
    EXPECT_LE(n_unused, 15 * static_cast<int64_t>(all.size()));
  }
  EXPECT_LT(world.metrics.kv_waste(), 0.04);
}

TEST(Scheduler, WasteCountsSharedPagesOnce) {
  World world(64, {.n_ubatch = 64, .n_batch = 64, .max_sequences = 4});
  const std::vector<int32_t> prompt = random_tokens(48, 1);
  world.add(joined(prompt, {1}), {.n_generate = 1});
  world.run_until_idle();
  for (int32_t i = 0; i < 4; ++i) world.add(joined(prompt, {2 + i}), {.n_generate = 2});
  world.run();  // admits them: with one row left they decode, from the next step on
  world.metrics = {};
  world.run();
  // Three pages that all share, and one of each with a single token in it.
  EXPECT_EQ(world.metrics.slot_steps_allocated, (3 + 4) * 16);
  EXPECT_EQ(world.metrics.slot_steps_used, 48 + 4);
  EXPECT_DOUBLE_EQ(world.metrics.kv_waste(), 1 - 52.0 / 112);
  EXPECT_DOUBLE_EQ(world.metrics.kv_waste_at_peak(), world.metrics.kv_waste());
  world.run();
  EXPECT_EQ(world.metrics.peak_slots_allocated, 112);
  EXPECT_EQ(world.metrics.peak_slots_used, 52);  // of equals the worst
}

// Arrivals, forks, cancels and abandoned steps over a memory that is far too small. The model of the memory is in
// World::compute; each step also checks the page accounting.
class SchedulerChaos : public testing::TestWithParam<uint32_t> {};

TEST_P(SchedulerChaos, NoPageIsLostOrUsedTwice) {
  std::mt19937 random(GetParam());
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const Preemption how[] = {Preemption::kAuto, Preemption::kRecompute, Preemption::kSwap};
  const SchedulerLimits limits{.n_ubatch = 16 + pick(60),
                               .n_batch = 16 + pick(60),
                               .max_sequences = 1 + pick(12),
                               .max_stall_ms = pick(3) == 0 ? 0.0 : 20.0,
                               .ageing_ms = 500,
                               .preemption = how[pick(3)]};
  World world(10 + pick(30), limits, pick(2) * 6000);
  std::vector<std::vector<int32_t>> prefixes;
  for (uint32_t i = 0; i < 4; ++i) prefixes.push_back(random_tokens(10 + pick(60), i));
  size_t n_added = 0;
  constexpr int kSteps = 1500;
  for (int n_steps = 0; n_steps < kSteps || !world.scheduler.idle(); ++n_steps) {
    ASSERT_LT(n_steps, 50 * kSteps) << "a sequence starves";
    if (n_steps < kSteps && pick(3) == 0 && world.scheduler.n_waiting() < 30) {
      world.add(joined(prefixes[static_cast<size_t>(pick(4))], random_tokens(1 + pick(40), random())),
                {.priority = pick(3) - 1, .n_generate = pick(30), .cache_prompt = pick(5) != 0});
      ++n_added;
    }
    const auto all = world.scheduler.sequences();
    if (!all.empty() && pick(12) == 0) {
      world.end(all[static_cast<size_t>(pick(static_cast<int>(all.size())))], pick(2) == 0);
      world.scheduler.check_invariants();
    }
    if (pick(10) == 0) {  // abandoned half way: some rows were written
      const Step step = world.plan();
      if (!step.batch.empty()) world.compute(step, pick(static_cast<int>(step.batch.n_rows())));
      world.scheduler.check_invariants();
      world.now_ms += 5;
      continue;
    }
    const Step step = world.run(1 + pick(40));
    if (HasFatalFailure()) return;
    // A fork right after a sequence's newest token was computed, as samples of one prompt are.
    if (pick(6) != 0) continue;
    for (int64_t i = 0; i < world.scheduler.n_running(); ++i) {
      Sequence* sequence = world.scheduler.sequences()[static_cast<size_t>(i)];
      if (sequence->n_pending() != 1 || sequence->n_computed() == 0) continue;
      const int32_t newest = sequence->tokens.back();
      sequence->tokens.pop_back();
      world.fork(sequence, 1 + pick(20));
      sequence->tokens.push_back(newest);
      world.scheduler.check_invariants();
      ++n_added;
      break;
    }
  }
  EXPECT_EQ(world.finished.size(), n_added);
  world.expect_nothing_lost();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerChaos, testing::Range(0u, 8u));

}  // namespace
}  // namespace loci
