// What a request may ask about its prompt: how probable each token was, and the hidden rows.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/sampling/sampler.h"
#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

struct PromptSink : TokenSink {
  void on_prompt_token(int64_t position, std::span<const TokenProb> top) override {
    EXPECT_EQ(position, static_cast<int64_t>(tops.size()) + 1);
    tops.emplace_back(top.begin(), top.end());
  }
  void on_hidden(int64_t position, std::span<const float> row) override {
    EXPECT_EQ(position, static_cast<int64_t>(rows.size()));
    rows.emplace_back(row.begin(), row.end());
  }
  void on_token(int32_t token, std::string_view, std::span<const TokenProb>) override { tokens.push_back(token); }
  void on_finish(std::string_view, const RequestStats& end) override { stats = end; }

  std::vector<std::vector<TokenProb>> tops;
  std::vector<std::vector<float>> rows;
  std::vector<int32_t> tokens;
  RequestStats stats;
};

EngineConfig small_config() {
  EngineConfig config = test::tiny_config(test::tiny_model_file({}));
  config.max_sequences = 3;
  return config;
}

Request request_for(const std::vector<int32_t>& prompt, TokenSink& sink, int64_t max_tokens) {
  Request request;
  request.prompt = prompt;
  request.sink = &sink;
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  return request;
}

TEST(PromptRows, LogProbabilitiesAreThoseOfPlainEvaluation) {
  const std::vector<int32_t> prompt = test::random_tokens(70, 3);
  for (const int n_ubatch : {7, 512}) {
    EngineConfig config = small_config();
    config.n_ubatch = n_ubatch;
    const auto engine = Engine::load(config);
    std::vector<std::vector<TokenProb>> expected;
    engine->evaluate(prompt, 0, 0, [&](int64_t row, std::span<const float> logits) {
      if (row + 1 < std::ssize(prompt)) {
        expected.push_back(top_logprobs(logits, 3, prompt[static_cast<size_t>(row) + 1]));
      }
    });
    for (const int64_t max_tokens : {0, 2}) {
      // Others beside it, and its own prompt in the cache already.
      PromptSink warm, asked, beside;
      engine->submit(request_for(prompt, warm, 1));
      engine->run_until_idle();
      Request request = request_for(prompt, asked, max_tokens);
      request.n_prompt_logprobs = 3;
      engine->submit(request_for(test::random_tokens(30, 9), beside, 8));
      engine->submit(request);
      engine->run_until_idle();
      engine->check_invariants();
      ASSERT_EQ(asked.tops.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(asked.tops[i].size(), expected[i].size());
        for (size_t k = 0; k < expected[i].size(); ++k) {
          EXPECT_EQ(asked.tops[i][k].token, expected[i][k].token);
          EXPECT_EQ(asked.tops[i][k].logprob, expected[i][k].logprob);
        }
      }
      EXPECT_EQ(asked.stats.n_cached, 0);
      EXPECT_EQ(std::ssize(asked.tokens), max_tokens);
      if (max_tokens == 2) {
        EXPECT_EQ(asked.tokens.front(), warm.tokens.front());
      }
      EXPECT_EQ(std::ssize(beside.tokens), 8);
    }
  }
}

TEST(PromptRows, HiddenRowsDoNotDependOnCompanyOrChunks) {
  const std::vector<int32_t> prompt = test::random_tokens(40, 5);
  std::vector<std::vector<float>> first;
  for (const int n_ubatch : {512, 16, 5}) {
    EngineConfig config = small_config();
    config.n_ubatch = n_ubatch;
    const auto engine = Engine::load(config);
    PromptSink asked, beside;
    Request request = request_for(prompt, asked, 0);
    request.wants_hidden = true;
    engine->submit(request_for(test::random_tokens(20, 1), beside, 6));
    engine->submit(request);
    engine->run_until_idle();
    ASSERT_EQ(asked.rows.size(), prompt.size());
    ASSERT_EQ(std::ssize(asked.rows[0]), engine->arch().dim);
    double squares = 0;  // a normed row, scaled by weights of about one
    for (const float v : asked.rows[7]) squares += static_cast<double>(v) * v;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(engine->arch().dim)), 1, 0.5);
    if (first.empty()) first = asked.rows;
    EXPECT_EQ(asked.rows, first);
    EXPECT_EQ(asked.stats.reason, FinishReason::kLimit);
  }
}

TEST(PromptRows, APreemptedRequestIsToldEachRowOnce) {
  EngineConfig config = small_config();
  config.n_ubatch = 16;
  config.preemption = Preemption::kRecompute;
  config.max_sequences = 2;
  test::limit_pool(config, 128);
  const auto engine = Engine::load(config);
  constexpr int kMoreThanHalf = 80;  // of the pool
  PromptSink asked, rival;
  Request request = request_for(test::random_tokens(kMoreThanHalf, 2), asked, 1);
  request.n_prompt_logprobs = 0;
  request.wants_hidden = true;
  engine->submit(request);
  engine->step();
  Request urgent = request_for(test::random_tokens(kMoreThanHalf, 4), rival, 4);
  urgent.priority = 5;
  engine->submit(urgent);
  engine->run_until_idle();
  EXPECT_GT(engine->metrics().n_preempted_recompute, 0);
  EXPECT_EQ(std::ssize(asked.tops), kMoreThanHalf - 1);
  EXPECT_EQ(std::ssize(asked.rows), kMoreThanHalf);
  EXPECT_EQ(asked.tokens.size(), 1u);
}

}  // namespace
}  // namespace loci
