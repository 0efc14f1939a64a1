// Layers with a sliding window keep the K/V of the window alone: the same answers as with all of them kept, in less
// memory.
#include <gmock/gmock.h>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using test::greedy;
using test::random_tokens;
using test::RecordingSink;
using testing::HasSubstr;

// As in Gemma 3, five of six layers have the window.
const test::TinyModel kModel{.arch = "gemma3", .n_layers = 6, .dim = 32, .ffn_dim = 48, .window = 24};

EngineConfig windowed_config(bool swa_full = false) {
  EngineConfig config = test::tiny_config(test::tiny_model_file(kModel));
  config.n_ctx = 1024;
  config.n_ubatch = 32;
  config.kv.swa_full = swa_full;
  return config;
}

TEST(Windows, TheSameLogitsAsWithAllKept) {
  const std::vector<int32_t> tokens = random_tokens(300, 1);
  for (const char* backend : {"reference", "cpu"}) {
    const auto full = test::load_engine(windowed_config(true), backend);
    const auto engine = test::load_engine(windowed_config(), backend);
    EXPECT_EQ(full->info().n_kv_window_tokens, 0);
    EXPECT_LT(engine->info().n_kv_window_tokens, 300);
    EXPECT_LT(engine->info().kv_bytes, full->info().kv_bytes / 2);
    const auto expected = test::last_logits(*full, tokens);
    EXPECT_EQ(test::last_logits(*engine, tokens, 7), expected);
    if (backend == std::string("reference")) continue;  // slow
    for (const int chunk : {1, 32}) EXPECT_EQ(test::last_logits(*engine, tokens, chunk), expected) << chunk;
    std::vector<std::vector<int32_t>> company;
    for (int i = 0; i < 12; ++i) company.push_back(random_tokens(1 + 23 * i, static_cast<uint32_t>(i)));
    company[7] = tokens;
    EXPECT_EQ(engine->evaluate_batch(company), full->evaluate_batch(company));
    engine->check_invariants();
  }
}

// Chats: each turn goes on from the end of the one before, and a turn that is asked again from where its prompt ended.
TEST(Windows, TheSameAnswersAsWithAllKept) {
  for (const int n_sequences : {1, 3}) {
    EngineConfig config = windowed_config(), keeps_all = windowed_config(true);
    config.max_sequences = keeps_all.max_sequences = n_sequences;
    const auto engine = test::load_engine(config), full = test::load_engine(keeps_all);
    std::vector<int32_t> chat = random_tokens(90, 1);
    for (int turn = 0; turn < 5; ++turn) {
      RecordingSink first, again, other;
      engine->submit(greedy(chat, 20, first));
      engine->run_until_idle();
      engine->check_invariants();
      const auto n_prompt = static_cast<int64_t>(chat.size());
      if (turn > 0) {
        EXPECT_EQ(first.stats.n_cached, n_prompt - 31) << turn;  // 30 new tokens and the last one of the answer
      }
      engine->submit(greedy(chat, 20, again));
      engine->run_until_idle();
      EXPECT_EQ(again.stats.n_cached, n_prompt - 1);
      full->submit(greedy(chat, 20, other));
      full->run_until_idle();
      EXPECT_EQ(first.tokens, other.tokens);
      EXPECT_EQ(again.tokens, other.tokens);
      chat.insert(chat.end(), first.tokens.begin(), first.tokens.end());
      const std::vector<int32_t> next = random_tokens(30, static_cast<uint32_t>(turn + 2));
      chat.insert(chat.end(), next.begin(), next.end());
    }
    const Metrics metrics = engine->metrics();
    EXPECT_EQ(metrics.window_pages_used, 0);
    EXPECT_EQ(metrics.window_pages_free + metrics.window_pages_cached, metrics.window_pages_total);
    EXPECT_THAT(summary(metrics), HasSubstr("window pages"));
  }
}

// A live sequence holds the pages of its window, and those of a step's rows while it is computed.
TEST(Windows, ALiveSequenceHoldsItsWindowAlone) {
  const auto engine = test::load_engine(windowed_config());
  RecordingSink sink;
  Request request = greedy(random_tokens(400, 1), 100, sink);
  request.cache_prompt = false;
  engine->submit(request);
  while (engine->step()) {
    engine->check_invariants();
    const Metrics metrics = engine->metrics();
    EXPECT_LE(metrics.window_pages_used, 3);
    EXPECT_EQ(metrics.window_pages_cached, 0);
  }
  EXPECT_EQ(sink.tokens.size(), 100u);
  EXPECT_EQ(engine->metrics().n_evicted_window_pages, 0);
}

// The same budget holds more tokens: a prompt that does not fit with all kept is answered.
TEST(Windows, ABudgetHoldsMoreTokens) {
  EngineConfig keeps_all = windowed_config(true), config = windowed_config();
  test::limit_pool(keeps_all, 256);
  config.kv.budget_bytes = keeps_all.kv.budget_bytes;
  const auto full = test::load_engine(keeps_all), engine = test::load_engine(config);
  EXPECT_LE(engine->info().kv_bytes, full->info().kv_bytes);
  EXPECT_EQ(full->info().n_kv_tokens, 256);
  EXPECT_GE(engine->info().n_kv_tokens, 2 * 256);
  const std::vector<int32_t> prompt = random_tokens(500, 1);
  EXPECT_THAT(test::error_of([&] { test::generate(*full, prompt, 10); }), HasSubstr("256 tokens of --kv-budget"));
  const std::vector<int32_t> answer = test::generate(*engine, prompt, 10);
  EXPECT_EQ(answer, test::generate(*test::load_engine(windowed_config(true)), prompt, 10));
  engine->check_invariants();
}

// Pages are short in layers with a window alone: prompts are found as far as those are left, and say why not further.
TEST(Windows, AMissForWantOfWindowPagesIsToldAsEvicted) {
  const auto engine = test::load_engine(windowed_config());
  const std::vector<int32_t> first = random_tokens(200, 1);
  RecordingSink cold, again;
  engine->submit(greedy(first, 1, cold));
  engine->run_until_idle();
  for (uint32_t i = 2; engine->metrics().n_evicted_window_pages < 40; ++i) {
    test::generate(*engine, random_tokens(60, i), 1);
    ASSERT_EQ(engine->metrics().n_evicted_pages, 0);
  }
  engine->submit(greedy(first, 1, again));
  engine->run_until_idle();
  EXPECT_LT(again.stats.n_cached, 199);
  EXPECT_EQ(again.stats.cache.cause, MissCause::kEvicted);
  EXPECT_THAT(again.stats.cache_miss, HasSubstr("evicted from token"));
  EXPECT_EQ(again.tokens, cold.tokens);
  engine->check_invariants();
}

// Several samples, drafts in trees and preemption by swapping, at positions far behind the first window.
TEST(Windows, ForksDraftsAndSwapping) {
  EngineConfig config = windowed_config();
  config.max_sequences = 3;
  config.preemption = Preemption::kSwap;
  const auto engine = test::load_engine(config), full = test::load_engine(windowed_config(true));
  std::vector<RecordingSink> sinks(3);
  Request request = greedy(random_tokens(130, 1), 40, sinks[0]);
  request.n = 3;
  request.sinks = {&sinks[0], &sinks[1], &sinks[2]};
  request.speculation = {.mode = SpeculationMode::kNgram, .max_tokens = 6, .width = 3, .adaptive = false};
  engine->submit(request);
  RecordingSink urgent[3];
  for (int i = 0; i < 12 || engine->step(); ++i) {
    if (i < 12) engine->step();
    engine->check_invariants();
    if (i % 4 != 3 || i > 12) continue;
    Request other = greedy(random_tokens(50 + i, 7), 5, urgent[i / 4]);
    other.priority = 1;
    engine->submit(other);
  }
  for (int i = 0; i < 3; ++i) {
    RecordingSink alone;
    request.n = 1;
    request.sinks.clear();
    request.sink = &alone;
    request.speculation = {};
    full->submit(request);
    full->run_until_idle();
    EXPECT_EQ(sinks[static_cast<size_t>(i)].tokens, alone.tokens) << i;
  }
  EXPECT_GT(engine->metrics().n_preempted_swap, 0);
  EXPECT_GT(engine->metrics().n_drafted[0], 0);
}

}  // namespace
}  // namespace loci
