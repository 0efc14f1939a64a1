// Requests on tiny models: limits, stops, cancelling, errors, prefix reuse, company.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <thread>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using test::greedy;
using test::random_tokens;
using test::RecordingSink;
using testing::HasSubstr;

std::unique_ptr<Engine> load_with(const std::function<void(EngineConfig&)>& change, const test::TinyModel& model = {}) {
  EngineConfig config = test::tiny_config(test::tiny_model_file(model));
  change(config);
  return test::load_engine(config);
}

TEST(Engine, AnswersAndReports) {
  const auto engine = test::load_tiny({});
  RecordingSink sink;
  Request request = greedy(random_tokens(20, 1), 5, sink);
  request.n_top_logprobs = 3;
  engine->submit(request);
  engine->run_until_idle();
  EXPECT_EQ(sink.n_finished, 1);
  EXPECT_EQ(sink.tokens.size(), 5u);
  EXPECT_EQ(sink.stats.reason, FinishReason::kLimit);
  EXPECT_EQ(sink.stats.n_prompt, 20);
  EXPECT_EQ(sink.stats.n_cached, 0);
  EXPECT_EQ(sink.stats.n_predicted, 5);
  EXPECT_EQ(sink.n_top, 3u);
  EXPECT_EQ(sink.prompt_done, (std::vector<int64_t>{20}));
  EXPECT_FALSE(engine->step());
  engine->check_invariants();
}

TEST(Engine, GreedyTokensAreTheArgmaxOfPlainEvaluation) {
  const auto engine = test::load_tiny({});
  std::vector<int32_t> tokens = random_tokens(20, 1);
  const std::vector<int32_t> answer = test::generate(*engine, tokens, 20);
  for (const int32_t token : answer) {
    const std::vector<float> logits = test::last_logits(*engine, tokens);
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), token);
    tokens.push_back(token);
  }
}

TEST(Engine, EvaluatesOnlyWhenNoTokenIsWanted) {
  const auto engine = test::load_tiny({});
  RecordingSink sink;
  engine->submit(greedy(random_tokens(100, 1), 0, sink));
  engine->run_until_idle();
  EXPECT_EQ(sink.stats.reason, FinishReason::kLimit);
  EXPECT_EQ(sink.stats.n_predicted, 0);
  EXPECT_EQ(sink.prompt_done, (std::vector<int64_t>{64, 100}));
  EXPECT_EQ(sink.tokens.size(), 0u);
}

TEST(Engine, StopsAtStopStringsAndEndTokens) {
  const auto engine = test::load_tiny({});
  RecordingSink free_run;
  engine->submit(greedy(random_tokens(20, 1), 30, free_run));
  engine->run_until_idle();
  ASSERT_GT(free_run.text.size(), 8u);

  RecordingSink stopped;
  Request request = greedy(random_tokens(20, 1), 30, stopped);
  // A piece of ASCII from the middle of the answer.
  size_t at = free_run.text.size() / 2;
  while (at < free_run.text.size() && (free_run.text[at] & 0x80) != 0) ++at;
  ASSERT_LT(at, free_run.text.size());
  const std::string stop = free_run.text.substr(at, 1);
  request.stops = {stop};
  engine->submit(request);
  engine->run_until_idle();
  EXPECT_EQ(stopped.stats.reason, FinishReason::kStopString);
  EXPECT_EQ(stopped.stats.stop_string, stop);
  EXPECT_EQ(stopped.text, free_run.text.substr(0, free_run.text.find(stop)));

  RecordingSink ended;
  request = greedy(random_tokens(20, 1), 30, ended);
  request.stop_at_end = true;
  request.sampling.logit_bias = {{test::kTinyImEnd, 1000.0f}};
  engine->submit(request);
  engine->run_until_idle();
  EXPECT_EQ(ended.stats.reason, FinishReason::kEndToken);
  EXPECT_EQ(ended.tokens, (std::vector<int32_t>{test::kTinyImEnd}));
  EXPECT_EQ(ended.text, "");
  EXPECT_EQ(ended.stats.n_predicted, 1);
}

TEST(Engine, EndsWhenTheContextIsFull) {
  const auto engine = load_with([](EngineConfig& config) { config.n_ctx = 40; });
  for (const int n_prompt : {1, 15, 16, 39, 40}) {
    RecordingSink sink;
    engine->submit(greedy(random_tokens(n_prompt, 1), -1, sink));
    engine->run_until_idle();
    EXPECT_EQ(sink.stats.reason, FinishReason::kContextFull);
    EXPECT_EQ(sink.stats.n_predicted, 40 - n_prompt + 1);  // the last token needs no place
    engine->check_invariants();
  }
  RecordingSink sink;
  const std::string message = test::error_of([&] { engine->submit(greedy(random_tokens(41, 1), -1, sink)); });
  EXPECT_THAT(message, testing::AllOf(HasSubstr("41"), HasSubstr("40")));
}

TEST(Engine, RefusesBadRequests) {
  const auto engine = test::load_tiny({});
  RecordingSink sink;
  EXPECT_THAT(test::error_of([&] { engine->submit(greedy({}, 1, sink)); }), HasSubstr("at least one token"));
  EXPECT_THAT(test::error_of([&] { engine->submit(greedy({5, 265}, 1, sink)); }), HasSubstr("found 265"));
  EXPECT_THAT(test::error_of([&] { engine->submit(greedy({-1}, 1, sink)); }), HasSubstr("found -1"));
  Request request = greedy({1}, 1, sink);
  request.sampling.temperature = std::nanf("");
  EXPECT_THAT(test::error_of([&] { engine->submit(request); }), HasSubstr("temp"));
  EXPECT_EQ(sink.n_finished, 0);
}

TEST(Engine, RefusesBadConfigurations) {
  const auto refusal = [](const std::function<void(EngineConfig&)>& change) {
    return test::error_of([&] { load_with(change); });
  };
  EXPECT_THAT(refusal([](auto& c) { c.kv.page_size = 24; }), HasSubstr("multiple of 16"));
  EXPECT_THAT(refusal([](auto& c) { c.n_ctx = -5; }), HasSubstr("context size"));
  EXPECT_THAT(refusal([](auto& c) { c.n_ubatch = 0; }), HasSubstr("micro-batch size"));
  EXPECT_THAT(refusal([](auto& c) { c.max_sequences = 0; }), HasSubstr("sequences"));
}

TEST(Engine, RefusesCacheTypesThatDoNotFitTheHeads) {
  const auto refusal = [](KvFormat k, KvFormat v) {
    EngineConfig config =
        test::tiny_config(test::tiny_model_file({.dim = 96, .n_heads = 2, .n_kv_heads = 2, .head_dim = 48}));
    config.kv.k_format = k;
    config.kv.v_format = v;
    return test::error_of([&] { (void)test::load_engine(config); });
  };
  EXPECT_THAT(refusal(KvFormat::kF16, KvFormat::kQ8_0),
              testing::AllOf(HasSubstr("-ctv q8_0"), HasSubstr("multiple of 32, found 48")));
  EXPECT_THAT(refusal(KvFormat::kQ4_0, KvFormat::kF16), HasSubstr("-ctk q4_0"));
}

TEST(Engine, SaysWhatContextWouldFit) {
  const std::string message = test::error_of([] {
    load_with([](EngineConfig& config) { config.n_ctx = 1 << 24; },
              {.n_layers = 8, .n_heads = 16, .n_kv_heads = 16, .head_dim = 64});
  });
  EXPECT_THAT(message, testing::AllOf(HasSubstr("K/V cache of 16777216 tokens"), HasSubstr("would fit")));
}

TEST(Engine, LoadCanBeAbandoned) {
  const EngineConfig config = test::tiny_config(test::tiny_model_file({}));
  int64_t last = -1, total_seen = 0;
  const auto engine = Engine::load(
      config,
      [&](int64_t done, int64_t total, std::string_view) {
        EXPECT_GE(done, last);
        last = done, total_seen = total;
        return true;
      },
      test::make_reference_backend());
  EXPECT_EQ(last, total_seen);
  EXPECT_THAT(test::error_of([&] {
                Engine::load(
                    config, [](int64_t, int64_t, std::string_view) { return false; }, test::make_reference_backend());
              }),
              HasSubstr("interrupted"));
}

TEST(Engine, NothingOfTheFileIsNeededWithoutMmap) {
  const test::TinyModel model;
  EngineConfig config = test::tiny_config(test::tiny_model_file(model));
  const std::vector<int32_t> expected = test::generate(*test::load_engine(config), {1, 2, 3}, 8);
  config.use_mmap = false;
  EXPECT_EQ(test::generate(*test::load_engine(config), {1, 2, 3}, 8), expected);
}

TEST(Engine, SaysWhereAPromptLeftTheCache) {
  const auto engine = test::load_tiny({});
  const auto ask = [&](const std::string& text) {
    RecordingSink sink;
    engine->submit(greedy(engine->tokenizer().encode(text, false, false), 1, sink));
    engine->run_until_idle();
    return sink.stats;
  };
  EXPECT_EQ(ask("What is the capital of France? \"Paris\"\n").cache.cause, MissCause::kEmpty);
  const RequestStats same = ask("What is the capital of France? \"Paris\"\n");
  EXPECT_EQ(same.cache.cause, MissCause::kNone);
  EXPECT_EQ(same.cache_miss, "");
  EXPECT_EQ(same.n_cached, same.n_prompt - 1);
  const RequestStats other = ask("What is the capital of France? \"Rome\"\n");
  EXPECT_EQ(other.cache.cause, MissCause::kDiffers);
  EXPECT_EQ(other.cache.n_cached, other.n_cached);
  EXPECT_THAT(other.cache_miss, testing::AllOf(HasSubstr("France? \\\"\": the prompt has \"Rome\\\"\\n\""),
                                               HasSubstr("the cache \"Paris\\\"\\n\"")));
  // A character cut between two tokens.
  const RequestStats cut = ask("What is the capital of France? \"\xc3\xa9");
  EXPECT_THAT(cut.cache_miss, HasSubstr("the prompt has \"\xc3\xa9\""));
}

// A history edited anywhere, on a cache that holds all its earlier forms and is too small for them: the answer is that
// of an empty engine.
TEST(Engine, EditedHistoriesAnswerAsFreshOnes) {
  const auto fresh = test::load_tiny({});
  const auto engine = load_with([](EngineConfig& config) { test::limit_pool(config, 300); });
  std::mt19937 random(3);
  std::vector<int32_t> history = random_tokens(40, 1);
  int64_t n_cached = 0;
  for (int i = 0; i < 60; ++i) {
    RecordingSink sink;
    engine->submit(greedy(history, 12, sink));
    engine->run_until_idle();
    engine->check_invariants();
    n_cached += sink.stats.n_cached;
    EXPECT_EQ(sink.tokens, test::generate(*fresh, history, 12)) << i;
    fresh->clear_cache();
    const size_t at = random() % history.size();
    switch (random() % 3) {
      case 0:
        history[at] = static_cast<int32_t>(random() % 200);
        break;
      case 1:
        history.resize(at + 1);
        break;
      default:
        history.insert(history.end(), sink.tokens.begin(), sink.tokens.end());
    }
    if (history.size() > 200) history.resize(50);
  }
  EXPECT_GT(n_cached, 60 * 10);
}

TEST(Engine, ReusesTheLongestPrefix) {
  const auto engine = test::load_tiny({});
  std::vector<int32_t> tokens = random_tokens(50, 1);
  RecordingSink first;
  engine->submit(greedy(tokens, 10, first));
  engine->run_until_idle();

  // The whole conversation so far and a new turn: all evaluated tokens are found again.
  tokens.insert(tokens.end(), first.tokens.begin(), first.tokens.end());
  std::vector<int32_t> longer = tokens;
  longer.insert(longer.end(), {7, 8, 9});
  RecordingSink second;
  engine->submit(greedy(longer, 10, second));
  engine->run_until_idle();
  EXPECT_EQ(second.stats.n_cached, 59);  // the last generated token had no K/V yet

  // The same prompt again: at least one token is evaluated.
  RecordingSink third;
  engine->submit(greedy(longer, 10, third));
  engine->run_until_idle();
  EXPECT_EQ(third.stats.n_cached, 62);
  EXPECT_EQ(third.tokens, second.tokens);

  RecordingSink cold;
  Request request = greedy(longer, 10, cold);
  request.cache_prompt = false;
  engine->submit(request);
  engine->run_until_idle();
  EXPECT_EQ(cold.stats.n_cached, 0);
  EXPECT_EQ(cold.tokens, second.tokens);
  engine->clear_cache();
  engine->check_invariants();
}

TEST(Engine, ReuseAtEveryPageBorderGivesTheSameAnswer) {
  const auto engine = test::load_tiny({.arch = "gemma3", .n_layers = 7, .window = 20});
  const std::vector<int32_t> tokens = random_tokens(100, 3);
  for (const int n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100}) {
    std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + n);
    for (const int32_t last : {5, 6}) {
      prompt.back() = last;
      engine->clear_cache();
      const std::vector<int32_t> fresh = test::generate(*engine, prompt, 6);
      EXPECT_EQ(test::generate(*engine, prompt, 6), fresh) << n;
      engine->clear_cache();
      test::generate(*engine, tokens, 6);
      EXPECT_EQ(test::generate(*engine, prompt, 6), fresh) << n;
    }
  }
}

TEST(Engine, CompanyChangesNothing) {
  const auto alone = test::load_tiny({});
  const auto together = load_with([](EngineConfig& config) {
    config.n_ctx = 1024;
    config.max_sequences = 8;
  });
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 8; ++i)
    prompts.push_back(i % 2 == 0 ? random_tokens(33, 1) : random_tokens(5 + 19 * i, 10 + static_cast<uint32_t>(i)));
  std::vector<RecordingSink> sinks(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request = greedy(prompts[i], 12, sinks[i]);
    request.sampling.temperature = i < 4 ? 0.0f : 0.9f;
    request.sampling.seed = 5;
    together->submit(request);
  }
  while (together->step()) together->check_invariants();
  for (size_t i = 0; i < prompts.size(); ++i) {
    RecordingSink sink;
    Request request = greedy(prompts[i], 12, sink);
    request.sampling.temperature = i < 4 ? 0.0f : 0.9f;
    request.sampling.seed = 5;
    alone->submit(request);
    alone->run_until_idle();
    EXPECT_EQ(sinks[i].tokens, sink.tokens) << i;
    EXPECT_EQ(sinks[i].text, sink.text) << i;
  }
}

// A pool far smaller than all requests need: some are preempted and computed again, none starves or changes.
TEST(Engine, PreemptionChangesNothing) {
  const auto roomy = test::load_tiny({});
  const auto tight = load_with([](EngineConfig& config) {
    config.n_ctx = 160;
    config.max_sequences = 4;
    config.n_ubatch = 48;
    test::limit_pool(config, 160);
  });
  std::vector<RecordingSink> sinks(12);
  for (size_t i = 0; i < sinks.size(); ++i) {
    tight->submit(greedy(random_tokens(10 + static_cast<int>(i) * 3, static_cast<uint32_t>(i)), 90, sinks[i]));
  }
  while (tight->step()) tight->check_invariants();
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i].n_finished, 1);
    EXPECT_EQ(sinks[i].stats.reason, FinishReason::kLimit);
    EXPECT_EQ(sinks[i].tokens,
              test::generate(*roomy, random_tokens(10 + static_cast<int>(i) * 3, static_cast<uint32_t>(i)), 90));
  }
}

TEST(Engine, CancelEndsOneRequest) {
  const auto engine = load_with([](EngineConfig& config) { config.max_sequences = 2; });
  RecordingSink first, second;
  const RequestId id = engine->submit(greedy(random_tokens(10, 1), 50, first));
  engine->submit(greedy(random_tokens(10, 2), 20, second));
  first.after_token = [&] {
    if (first.tokens.size() == 3) engine->cancel(id);
  };
  engine->run_until_idle();
  EXPECT_EQ(first.stats.reason, FinishReason::kCancelled);
  EXPECT_EQ(first.tokens.size(), 3u);
  EXPECT_EQ(second.stats.reason, FinishReason::kLimit);
  EXPECT_EQ(second.tokens.size(), 20u);
  engine->check_invariants();
}

TEST(Engine, CancelBetweenPromptChunks) {
  const auto engine = load_with([](EngineConfig& config) { config.n_ubatch = 16; });
  RecordingSink sink;
  engine->submit(greedy(random_tokens(200, 1), 50, sink));
  sink.after_prompt = [&] { engine->cancel_all(); };
  engine->run_until_idle();
  EXPECT_EQ(sink.stats.reason, FinishReason::kCancelled);
  EXPECT_EQ(sink.prompt_done, (std::vector<int64_t>{16}));
  // What was computed is kept, and the answer after it is that of a fresh run.
  RecordingSink again;
  engine->submit(greedy(random_tokens(200, 1), 5, again));
  engine->run_until_idle();
  EXPECT_EQ(again.stats.n_cached, 16);
  engine->clear_cache();
  EXPECT_EQ(test::generate(*engine, random_tokens(200, 1), 5), again.tokens);
}

TEST(Engine, CancelFromAnotherThreadStopsWithinAStep) {
  const auto engine = load_with([](EngineConfig& config) { config.n_ctx = 100000; });
  RecordingSink sink;
  engine->submit(greedy(random_tokens(10, 1), -1, sink));
  std::atomic<bool> started = false;
  sink.after_token = [&] { started = true; };
  std::thread canceller([&] {
    while (!started) std::this_thread::yield();
    engine->cancel_all();
  });
  engine->run_until_idle();
  canceller.join();
  EXPECT_EQ(sink.stats.reason, FinishReason::kCancelled);
}

TEST(Engine, ALateCancelDoesNotHitTheNextRequest) {
  const auto engine = test::load_tiny({});
  engine->cancel_all();
  EXPECT_EQ(test::generate(*engine, {1, 2, 3}, 4).size(), 4u);
}

// A pool smaller than the context: told when loading; requests are refused or end where it does.
TEST(Engine, APoolSmallerThanTheContext) {
  const auto engine = load_with([](EngineConfig& config) { test::limit_pool(config, 100); });
  EXPECT_EQ(engine->info().n_ctx, 256);
  EXPECT_EQ(engine->info().n_kv_tokens, 112);
  EXPECT_THAT(test::error_of([&] { test::generate(*engine, random_tokens(113, 1), 1); }),
              testing::AllOf(HasSubstr("113 tokens"), HasSubstr("112 tokens of --kv-budget")));
  RecordingSink sink;
  engine->submit(greedy(random_tokens(100, 1), 50, sink));
  engine->run_until_idle();
  EXPECT_EQ(sink.stats.reason, FinishReason::kContextFull);
  EXPECT_EQ(sink.tokens.size(), 13u);
  EXPECT_EQ(sink.tokens, test::generate(*test::load_tiny({}), random_tokens(100, 1), 13));
}

// One embedding row is NaN: requests with that token fail, others go on, and the pages that the NaN went through
// do no harm later.
TEST(Engine, NanEndsOneRequestAlone) {
  constexpr int32_t kBadToken = 77;
  test::TinyModel model;
  model.edit = [](std::string_view name, std::vector<float>& values) {
    if (name == "token_embd.weight") values[kBadToken * 64 + 3] = std::nanf("");
  };
  for (const char* backend : {"reference", "cpu"}) {
    EngineConfig config = test::tiny_config(test::tiny_model_file(model));
    config.max_sequences = 2;
    const auto engine = test::load_engine(config, backend);
    std::vector<int32_t> good = random_tokens(40, 1);
    std::replace(good.begin(), good.end(), kBadToken, 1);
    const std::vector<int32_t> expected = test::generate(*engine, good, 8);
    engine->clear_cache();
    RecordingSink bad_sink, good_sink;
    engine->submit(greedy({1, 2, kBadToken, 4}, 8, bad_sink));
    engine->submit(greedy(good, 8, good_sink));
    engine->run_until_idle();
    EXPECT_EQ(bad_sink.stats.reason, FinishReason::kError);
    EXPECT_THAT(bad_sink.stats.error, HasSubstr("NaN"));
    EXPECT_EQ(bad_sink.tokens.size(), 0u);
    EXPECT_EQ(good_sink.tokens, expected);
    engine->clear_cache();
    EXPECT_EQ(test::generate(*engine, good, 8), expected) << backend;
    engine->check_invariants();
  }
}

// 1,000 requests arriving at random over a pool of a quarter of their peak need.
TEST(Engine, Soak) {
  const auto engine = load_with(
      [](EngineConfig& config) {
        config.n_ctx = 128;
        config.max_sequences = 8;
        config.n_ubatch = 32;
        test::limit_pool(config, 128);
      },
      {.n_layers = 1, .dim = 16, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .ffn_dim = 16});
  std::mt19937 random(9);
  std::vector<std::unique_ptr<RecordingSink>> sinks;
  bool more = true;
  while (sinks.size() < 1000 || more) {
    if (sinks.size() < 1000 && random() % 3 != 0) {
      sinks.push_back(std::make_unique<RecordingSink>());
      engine->submit(
          greedy(random_tokens(1 + static_cast<int>(random() % 50), random() % 4), random() % 20, *sinks.back()));
    }
    more = engine->step();
    if (random() % 16 == 0) engine->check_invariants();
  }
  for (const auto& sink : sinks) ASSERT_EQ(sink->n_finished, 1);
  engine->clear_cache();
  engine->check_invariants();
}

}  // namespace
}  // namespace loci
