// Random requests over a memory that is far too small: whatever the company, the cache, preemptions, drafts and
// cancels, each answer is that of the same request alone on an empty engine, and no page is lost. LOCI_RANDOM_STEPS and
// LOCI_RANDOM_SEEDS (compile time) make the long version.
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "tests/engine/engine_helpers.h"

#ifndef LOCI_RANDOM_STEPS
#define LOCI_RANDOM_STEPS 400
#define LOCI_RANDOM_SEEDS 4
#endif

namespace loci {
namespace {

using test::random_tokens;
using test::RecordingSink;

const test::TinyModel kModel{
    .n_layers = 2, .dim = 16, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .ffn_dim = 16, .seed = 5};

const test::TinyModel kDraftModel{
    .n_layers = 1, .dim = 16, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .ffn_dim = 16, .seed = 6};

// Every other layer sees the last 24 tokens alone.
test::TinyModel with_windows(test::TinyModel model) {
  model.arch = "gemma3";
  model.window = 24;
  model.keys = [](gguf::Writer& writer) { writer.set_u32("gemma3.attention.sliding_window_pattern", 2); };
  return model;
}

struct Variant {
  uint32_t seed;
  bool windows;
  std::string model_path() const { return test::tiny_model_file(windows ? with_windows(kModel) : kModel); }
};

class Alone {
 public:
  explicit Alone(const Variant& variant) {
    EngineConfig config = test::tiny_config(variant.model_path());
    config.n_ctx = 1024;
    config.kv.swa_full = true;
    engine_ = test::load_engine(config);
  }
  // The answer to sample `i` of a request that has nobody beside it and nothing before it.
  const RecordingSink& answer(Request request, int i) {
    request.sampling.seed += i;
    request.n = 1;
    request.sinks.clear();
    request.timeout_ms = -1;
    request.cache_prompt = false;
    request.speculation = {};
    const auto [it, is_new] =
        known_.try_emplace(std::tuple(request.prompt, request.sampling.temperature > 0, request.sampling.seed,
                                      request.max_tokens, request.stop_at_end));
    if (!is_new) return it->second;
    request.sink = &it->second;
    engine_->clear_cache();
    engine_->submit(request);
    engine_->run_until_idle();
    return it->second;
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::map<std::tuple<std::vector<int32_t>, bool, int64_t, int64_t, bool>, RecordingSink> known_;
};

struct Submitted {
  RequestId id = 0;
  Request request;
  std::vector<std::unique_ptr<RecordingSink>> sinks;
};

class RandomEngine {
 public:
  explicit RandomEngine(const Variant& variant) : variant_(variant), random_(variant.seed) {
    EngineConfig config = test::tiny_config(variant.model_path());
    const Preemption how[] = {Preemption::kAuto, Preemption::kRecompute, Preemption::kSwap};
    config.n_ctx = 100 + pick(150);
    config.n_ubatch = 8 + pick(60);
    config.max_sequences = 1 + pick(10);
    config.max_queue = 20;
    config.max_stall_ms = pick(2) == 0 ? 0.0 : 0.05;
    config.ageing_ms = 2;
    config.preemption = how[pick(3)];
    config.kv.page_size = pick(3) == 0 ? 32 : 16;
    config.kv.swap_bytes = pick(2) * 20000;
    // With windows more room for whole sequences: it is the window pages that are short then.
    test::limit_pool(config, variant.windows ? config.n_ctx * (1 + pick(3)) : config.n_ctx);
    if (variant.seed % 2 == 0) {
      config.draft_model_path = test::tiny_model_file(variant.windows ? with_windows(kDraftModel) : kDraftModel);
      config.kv.budget_bytes = config.kv.budget_bytes * 3 / 2;  // its layer beside the model's two
    }
    engine_ = test::load_engine(config);
    for (uint32_t i = 0; i < 5; ++i) prefixes_.push_back(random_tokens(5 + pick(60), i));
  }

  void run(int n_steps) {
    std::atomic<bool> done{false};
    std::atomic<int> n_done{0};
    std::thread canceller([&] {
      std::mt19937 random(3);
      int next = 30;
      while (!done) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (n_done < next) continue;  // by steps, not by time: a slow machine shall not cancel everything
        next = n_done + 30;
        const RequestId newest = newest_;
        if (newest > 0) engine_->cancel(newest - static_cast<RequestId>(random() % 8));
      }
    });
    bool more = true;
    for (int i = 0; i < n_steps || more; ++i) {
      if (i < n_steps && pick(3) == 0) submit();
      if (pick(40) == 0) engine_->cancel(newest_ - pick(10));
      if (pick(400) == 0) engine_->cancel_all();
      if (pick(200) == 0) engine_->clear_cache();
      more = engine_->step();
      engine_->check_invariants();
      ++n_done;
    }
    done = true;
    canceller.join();
  }

  void check_answers() {
    Alone alone(variant_);
    int64_t n_whole = 0;
    for (const Submitted& s : submitted_) {
      for (int i = 0; i < s.request.n; ++i) {
        const RecordingSink& sink = *s.sinks[static_cast<size_t>(i)];
        ASSERT_EQ(sink.n_finished, 1);
        SCOPED_TRACE(str("request ", s.id, ", sample ", i, ", ", name(sink.stats.reason)));
        const RecordingSink& expected = alone.answer(s.request, i);
        ASSERT_EQ(sink.stats.seed, expected.stats.seed);
        // Cancelled, late, or ended by the small memory: as far as it came.
        const bool cut = sink.stats.reason == FinishReason::kCancelled ||
                         sink.stats.reason == FinishReason::kDeadline ||
                         sink.stats.reason == FinishReason::kContextFull;
        ASSERT_LE(sink.tokens.size(), expected.tokens.size());
        ASSERT_TRUE(std::equal(sink.tokens.begin(), sink.tokens.end(), expected.tokens.begin()));
        if (cut) continue;
        ++n_whole;
        ASSERT_EQ(sink.tokens.size(), expected.tokens.size());
        ASSERT_EQ(sink.text, expected.text);
        ASSERT_EQ(sink.stats.reason, expected.stats.reason);
      }
    }
    EXPECT_GT(n_whole, static_cast<int64_t>(submitted_.size()) / 4);
  }

  // The engine's figures agree with what the sinks saw, and all pages come back.
  void check_figures() {
    Metrics metrics = engine_->metrics();
    std::array<int64_t, Metrics::kFinishReasons> n_finished{};
    int64_t n_tokens = 0;
    for (const Submitted& s : submitted_) {
      for (const auto& sink : s.sinks) {
        ++n_finished[static_cast<size_t>(sink->stats.reason)];
        n_tokens += static_cast<int64_t>(sink->tokens.size());
      }
    }
    EXPECT_EQ(metrics.n_finished, n_finished);
    EXPECT_EQ(metrics.n_generated_tokens, n_tokens);
    EXPECT_EQ(metrics.n_refused, n_refused_);
    EXPECT_EQ(metrics.n_running + metrics.n_waiting, 0);
    EXPECT_EQ(metrics.pages_used, 0);
    engine_->clear_cache();
    engine_->step();
    metrics = engine_->metrics();
    EXPECT_EQ(metrics.pages_free, metrics.pages_total);
    EXPECT_EQ(metrics.pages_cached, 0);
    EXPECT_EQ(metrics.swapped_bytes, 0);
    EXPECT_EQ(metrics.window_pages_free, metrics.window_pages_total);
    EXPECT_EQ(metrics.window_pages_total > 0, variant_.windows);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void submit() {
    Submitted s;
    Request& request = s.request;
    request.prompt = prefixes_[static_cast<size_t>(pick(5))];
    // Few suffixes, so that whole prompts come again.
    const std::vector<int32_t> suffix = random_tokens(pick(30), static_cast<uint32_t>(pick(12)));
    request.prompt.insert(request.prompt.end(), suffix.begin(), suffix.end());
    request.sampling.temperature = pick(2) == 0 ? 0.0f : 0.9f;
    request.sampling.repeat_penalty = 1.1f;
    request.sampling.seed = pick(6);
    request.max_tokens = pick(5) == 0 ? pick(2) : pick(40);
    request.stop_at_end = pick(2) == 0;
    request.cache_prompt = pick(6) != 0;
    request.priority = pick(3) - 1;
    request.timeout_ms = pick(12) == 0 ? pick(5) : -1;
    request.n = pick(4) == 0 ? 1 + pick(5) : 1;
    constexpr SpeculationMode kModes[] = {SpeculationMode::kNone, SpeculationMode::kNgram, SpeculationMode::kAuto};
    request.speculation.mode = kModes[pick(3)];
    request.speculation.max_tokens = 1 + pick(8);
    request.speculation.width = 1 + pick(3);
    request.speculation.adaptive = pick(3) == 0;
    request.speculation.shared_ngrams = pick(2) == 0;
    for (int i = 0; i < request.n; ++i) {
      s.sinks.push_back(std::make_unique<RecordingSink>());
      request.sinks.push_back(s.sinks.back().get());
    }
    request.sink = request.sinks.front();
    if (pick(30) == 0) s.sinks.back()->after_token = [this] { engine_->cancel(newest_ - pick(4)); };
    try {
      s.id = engine_->submit(request);
    } catch (const QueueFull&) {
      ++n_refused_;
      return;
    }
    newest_ = s.id;
    submitted_.push_back(std::move(s));
  }

  const Variant variant_;
  std::mt19937 random_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::vector<int32_t>> prefixes_;
  std::vector<Submitted> submitted_;
  std::atomic<RequestId> newest_{0};
  int64_t n_refused_ = 0;
};

class RandomEngineTest : public testing::TestWithParam<std::tuple<uint32_t, bool>> {};

TEST_P(RandomEngineTest, EachAnswerIsThatOfTheRequestAlone) {
  RandomEngine engine({.seed = std::get<0>(GetParam()), .windows = std::get<1>(GetParam())});
  engine.run(LOCI_RANDOM_STEPS);
  engine.check_answers();
  engine.check_figures();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomEngineTest,
                         testing::Combine(testing::Range(0u, static_cast<uint32_t>(LOCI_RANDOM_SEEDS)),
                                          testing::Bool()));

}  // namespace
}  // namespace loci
