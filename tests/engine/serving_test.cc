// Requests beside others: several samples of one prompt, deadlines, cancels within a step, the queue limit, priorities,
// figures.
#include <gmock/gmock.h>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using test::greedy;
using test::random_tokens;
using test::RecordingSink;
using testing::HasSubstr;

std::string small_model(int n_layers) {
  return test::tiny_model_file(
      {.n_layers = n_layers, .dim = 16, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .ffn_dim = 16});
}

EngineConfig tiny(const std::function<void(EngineConfig&)>& change = [](EngineConfig&) {}) {
  EngineConfig config = test::tiny_config(small_model(2));
  config.max_sequences = 4;
  config.n_ctx = 1024;
  change(config);
  return config;
}

Request seeded(std::vector<int32_t> prompt, int64_t max_tokens, int64_t seed, TokenSink& sink) {
  Request request = greedy(std::move(prompt), max_tokens, sink);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = seed;
  request.sampling.repeat_penalty = 1.1f;
  return request;
}

TEST(Samples, EqualTheRequestAloneWithTheirSeed) {
  for (const int max_sequences : {1, 3, 8}) {
    for (const bool cache_prompt : {true, false}) {
      const auto engine = test::load_engine(tiny([&](EngineConfig& c) { c.max_sequences = max_sequences; }));
      std::vector<RecordingSink> sinks(5);
      Request request = seeded(random_tokens(70, 1), 12, 40, sinks[0]);
      request.cache_prompt = cache_prompt;
      request.n = 5;
      for (RecordingSink& sink : sinks) request.sinks.push_back(&sink);
      engine->submit(request);
      while (engine->step()) engine->check_invariants();
      const auto alone = test::load_engine(tiny());
      for (size_t i = 0; i < sinks.size(); ++i) {
        RecordingSink expected;
        alone->submit(seeded(random_tokens(70, 1), 12, 40 + static_cast<int64_t>(i), expected));
        alone->run_until_idle();
        EXPECT_EQ(sinks[i].tokens, expected.tokens) << "sample " << i;
        EXPECT_EQ(sinks[i].stats.seed, 40 + i);
        EXPECT_EQ(sinks[i].stats.n_prompt, 70);
        EXPECT_EQ(sinks[i].n_finished, 1);
      }
      EXPECT_NE(sinks[0].tokens, sinks[1].tokens);
      // The prompt is computed once; where there is no place at once, its last page is computed again.
      if (max_sequences == 8) {
        EXPECT_EQ(engine->metrics().n_prefill_rows, 70);
      }
      EXPECT_EQ(engine->metrics().n_submitted, 5);
    }
  }
}

TEST(Samples, ARandomSeedIsOneForAll) {
  const auto engine = test::load_engine(tiny());
  std::vector<RecordingSink> sinks(3);
  Request request = seeded(random_tokens(10, 1), 3, -1, sinks[0]);
  request.n = 3;
  for (RecordingSink& sink : sinks) request.sinks.push_back(&sink);
  engine->submit(request);
  engine->run_until_idle();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(sinks[i].stats.seed, sinks[0].stats.seed + i);
}

TEST(Samples, EndTogetherBeforeTheFirstToken) {
  const auto engine = test::load_engine(tiny([](EngineConfig& c) { c.n_ubatch = 16; }));
  std::vector<RecordingSink> sinks(3);
  Request request = seeded(random_tokens(100, 1), 5, 1, sinks[0]);
  request.n = 3;
  for (RecordingSink& sink : sinks) request.sinks.push_back(&sink);
  const RequestId id = engine->submit(request);
  engine->step();
  engine->cancel(id);
  engine->run_until_idle();
  for (const RecordingSink& sink : sinks) {
    EXPECT_EQ(sink.n_finished, 1);
    EXPECT_EQ(sink.stats.reason, FinishReason::kCancelled);
    EXPECT_EQ(sink.prompt_done, (std::vector<int64_t>{16}));
  }
  request.max_tokens = 0;
  engine->submit(request);
  engine->run_until_idle();
  for (const RecordingSink& sink : sinks) EXPECT_EQ(sink.stats.reason, FinishReason::kLimit);

  request.sinks.pop_back();
  EXPECT_THAT(test::error_of([&] { engine->submit(request); }), HasSubstr("3 sinks, found 2"));
  request.n = 0;
  EXPECT_THAT(test::error_of([&] { engine->submit(request); }), HasSubstr("n: expected"));
}

TEST(Deadline, EndsAWaitingAndARunningRequest) {
  const auto engine = test::load_engine(tiny([](EngineConfig& c) { c.max_sequences = 1; }));
  RecordingSink endless, waiting, late, timely;
  Request request = greedy(random_tokens(5, 1), -1, endless);
  request.timeout_ms = 30;
  engine->submit(request);
  request = greedy(random_tokens(5, 2), 3, waiting);
  request.timeout_ms = 1;
  engine->submit(request);
  request = greedy(random_tokens(5, 3), 3, late);
  request.timeout_ms = 0;
  engine->submit(request);
  request = greedy(random_tokens(5, 4), 3, timely);
  request.timeout_ms = 1000000;
  engine->submit(request);
  endless.after_token = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  engine->run_until_idle();
  EXPECT_EQ(endless.stats.reason, FinishReason::kDeadline);
  EXPECT_EQ(waiting.stats.reason, FinishReason::kDeadline);
  EXPECT_EQ(waiting.tokens.size(), 0u);
  EXPECT_EQ(late.stats.reason, FinishReason::kDeadline);
  EXPECT_EQ(timely.stats.reason, FinishReason::kLimit);
  EXPECT_EQ(engine->metrics().n_finished[static_cast<size_t>(FinishReason::kDeadline)], 3);
}

// Cancels in the middle of a forward pass, from within an operation of the device.
struct MidStep {
  explicit MidStep(int n_layers) {
    EngineConfig config = test::tiny_config(small_model(n_layers));
    config.max_sequences = 4;
    config.n_ctx = 1024;
    engine = Engine::load(config, {}, test::make_reference_backend([this] {
                            ++n_attentions;
                            if (on_attention) on_attention();
                          }));
  }
  std::unique_ptr<Engine> engine;
  int n_attentions = 0;
  std::function<void()> on_attention;
};

TEST(Cancel, AbandonsTheStepOfAPromptAtTheNextBorder) {
  MidStep world(8);
  Engine& engine = *world.engine;
  const std::vector<int32_t> expected = test::generate(engine, random_tokens(10, 2), 20);
  engine.clear_cache();
  RecordingSink talking, lengthy;
  engine.submit(greedy(random_tokens(10, 2), 20, talking));
  for (int i = 0; i < 5; ++i) engine.step();
  const RequestId id = engine.submit(greedy(random_tokens(300, 1), 20, lengthy));
  const int n_before = world.n_attentions;
  world.on_attention = [&] {
    if (world.n_attentions == n_before + 3) engine.cancel(id);
  };
  engine.step();
  EXPECT_EQ(world.n_attentions, n_before + 3);
  EXPECT_EQ(engine.metrics().n_abandoned_steps, 1);
  EXPECT_EQ(lengthy.n_finished, 0);
  engine.step();
  EXPECT_EQ(lengthy.stats.reason, FinishReason::kCancelled);
  engine.check_invariants();
  engine.run_until_idle();
  EXPECT_EQ(talking.tokens, expected);  // the other one has lost nothing
}

TEST(Cancel, DoesNotAbandonAStepThatIsMostlyForOthers) {
  MidStep world(8);
  Engine& engine = *world.engine;
  RecordingSink one, lengthy;
  const RequestId id = engine.submit(greedy(random_tokens(10, 2), 20, one));
  for (int i = 0; i < 5; ++i) engine.step();
  engine.submit(greedy(random_tokens(300, 1), 20, lengthy));
  const int n_before = world.n_attentions;
  world.on_attention = [&] {
    if (world.n_attentions == n_before + 3) engine.cancel(id);
  };
  engine.step();
  EXPECT_EQ(world.n_attentions, n_before + 8);
  EXPECT_GT(lengthy.prompt_done.back(), 0);
  engine.step();
  EXPECT_EQ(one.stats.reason, FinishReason::kCancelled);
  engine.run_until_idle();
  EXPECT_EQ(lengthy.tokens.size(), 20u);
}

TEST(Cancel, OfAllAbandonsAnyStep) {
  MidStep world(8);
  RecordingSink sinks[3];
  for (RecordingSink& sink : sinks) world.engine->submit(greedy(random_tokens(10, 2), 20, sink));
  world.on_attention = [&] {
    if (world.n_attentions == 2) world.engine->cancel_all();
  };
  world.engine->run_until_idle();
  EXPECT_EQ(world.n_attentions, 2);
  for (const RecordingSink& sink : sinks) EXPECT_EQ(sink.stats.reason, FinishReason::kCancelled);
}

TEST(Queue, RefusesMoreThanItsLimit) {
  const auto engine = test::load_engine(tiny([](EngineConfig& c) {
    c.max_sequences = 1;
    c.max_queue = 2;
  }));
  RecordingSink sinks[4];
  engine->submit(greedy(random_tokens(5, 1), 5, sinks[0]));
  engine->step();
  engine->submit(greedy(random_tokens(5, 2), 5, sinks[1]));
  engine->submit(greedy(random_tokens(5, 3), 5, sinks[2]));
  try {
    engine->submit(greedy(random_tokens(5, 4), 5, sinks[3]));
    FAIL() << "expected a refusal";
  } catch (const QueueFull& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 requests wait"));
  }
  EXPECT_EQ(engine->metrics().n_refused, 1);
  engine->run_until_idle();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sinks[i].tokens.size(), 5u);
  engine->submit(greedy(random_tokens(5, 4), 5, sinks[3]));
  engine->run_until_idle();
  EXPECT_EQ(sinks[3].tokens.size(), 5u);
}

TEST(Priority, HigherIsAnsweredFirst) {
  const auto engine = test::load_engine(tiny([](EngineConfig& c) { c.max_sequences = 1; }));
  std::vector<int> order;
  std::vector<RecordingSink> sinks(3);
  for (int i = 0; i < 3; ++i) {
    Request request = greedy(random_tokens(5, static_cast<uint32_t>(i)), 3, sinks[static_cast<size_t>(i)]);
    request.priority = i;
    sinks[static_cast<size_t>(i)].after_token = [&order, i] { order.push_back(i); };
    engine->submit(request);
  }
  engine->run_until_idle();
  EXPECT_EQ(order, (std::vector<int>{2, 2, 2, 1, 1, 1, 0, 0, 0}));
}

TEST(EngineMetrics, CountWhatHappened) {
  const auto engine = test::load_engine(tiny());
  RecordingSink first, second;
  engine->submit(greedy(random_tokens(50, 1), 5, first));
  engine->run_until_idle();
  engine->submit(greedy(random_tokens(50, 1), 5, second));
  engine->run_until_idle();
  const Metrics m = engine->metrics();
  EXPECT_EQ(m.n_submitted, 2);
  EXPECT_EQ(m.n_finished[static_cast<size_t>(FinishReason::kLimit)], 2);
  EXPECT_EQ(m.n_prompt_tokens, 100);
  EXPECT_EQ(m.n_cached_tokens, 49);
  EXPECT_EQ(m.n_hits, 1);
  EXPECT_EQ(m.n_misses, 1);
  EXPECT_EQ(m.n_generated_tokens, 10);
  EXPECT_EQ(m.n_prefill_rows, 50);
  EXPECT_EQ(m.n_decode_rows, 4 + 5);  // the row that a full hit leaves counts as one
  EXPECT_EQ(m.n_steps, 10);
  EXPECT_EQ(m.step_ms.n, 10);
  EXPECT_EQ(m.first_token_ms.n, 2);
  EXPECT_EQ(m.between_tokens_ms.n, 8);
  EXPECT_EQ(m.queue_ms.n, 2);
  EXPECT_EQ(m.pages_used, 0);
  EXPECT_GT(m.pages_cached, 0);
  EXPECT_EQ(m.pages_free + m.pages_cached, m.pages_total);
  EXPECT_THAT(summary(m), HasSubstr("100, of these 49 cached"));
}

}  // namespace
}  // namespace loci
