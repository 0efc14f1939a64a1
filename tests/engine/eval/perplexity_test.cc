// Perplexity: windows, refusals, and the value against a direct sum.
#include "engine/eval/perplexity.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using testing::HasSubstr;

TEST(PerplexityWindows, ScoreTheSecondHalf) {
  const std::vector<int32_t> tokens = test::random_tokens(1600, 1);
  const std::vector<EvalWindow> windows = perplexity_windows(tokens, -1, {.n_ctx = 512});
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[2].tokens, std::vector<int32_t>(tokens.begin() + 1024, tokens.begin() + 1536));
  EXPECT_EQ(windows[2].first_scored, 256);
  EXPECT_EQ(windows[2].end_scored, 511);  // 255 scores
  const std::vector<EvalWindow> with_bos = perplexity_windows(tokens, 3, {.n_ctx = 512, .n_chunks = 2});
  ASSERT_EQ(with_bos.size(), 2u);
  EXPECT_EQ(with_bos[1].tokens[0], 3);
  EXPECT_EQ(with_bos[1].tokens[1], tokens[513]);
}

TEST(PerplexityWindows, RefuseShortTexts) {
  for (const int n : {0, 1, 2, 255, 512, 513, 1023}) {
    const std::string message =
        test::error_of([&] { perplexity_windows(test::random_tokens(n, 1), -1, {.n_ctx = 512}); });
    EXPECT_THAT(message, testing::AllOf(HasSubstr("1024"), HasSubstr(str("found ", n))));
  }
  EXPECT_EQ(perplexity_windows(test::random_tokens(1024, 1), -1, {.n_ctx = 512}).size(), 2u);
}

// 5,000 tokens, windows of 2,048, stride 512: [0, 2048), five of 512 new tokens, the last [3072, 5000) with 392.
TEST(PerplexityWindows, Strided) {
  std::vector<int32_t> tokens = test::random_tokens(5000, 1);
  const auto scores = [](const EvalWindow& window) { return window.end_scored - window.first_scored; };
  std::vector<EvalWindow> windows = perplexity_windows(tokens, -1, {.n_ctx = 2048, .stride = 512});
  ASSERT_EQ(windows.size(), 7u);
  EXPECT_EQ(scores(windows[0]), 2047);
  for (size_t i = 1; i < 6; ++i) EXPECT_EQ(scores(windows[i]), 512);
  EXPECT_EQ(scores(windows[6]), 392);
  EXPECT_EQ(windows[6].tokens, std::vector<int32_t>(tokens.begin() + 3072, tokens.end()));

  tokens.insert(tokens.begin(), test::kTinyEndOfText);
  windows = perplexity_windows(tokens, test::kTinyEndOfText, {.n_ctx = 2048, .stride = 512});
  ASSERT_EQ(windows.size(), 7u);
  EXPECT_EQ(scores(windows[0]), 2048);
  EXPECT_EQ(windows[1].tokens[0], test::kTinyEndOfText);
  EXPECT_EQ(windows[1].tokens[1], tokens[513]);
  EXPECT_EQ(scores(windows[1]), 512);
}

TEST(Perplexity, IsTheMeanOverScoredTokens) {
  const auto engine = test::load_tiny({});
  const std::vector<int32_t> tokens = test::random_tokens(250, 1);
  double sum = 0;
  int64_t n = 0;
  for (int64_t start = 0; start + 100 <= 250; start += 100) {
    const std::vector<int32_t> window(tokens.begin() + start, tokens.begin() + start + 100);
    const std::vector<std::vector<float>> logits = test::all_logits(*engine, window);
    for (size_t row = 50; row < 99; ++row) {
      double total = 0;
      for (const float logit : logits[row]) total += std::exp(static_cast<double>(logit));
      sum += std::log(total) - logits[row][static_cast<size_t>(window[row + 1])];
      ++n;
    }
  }
  std::vector<double> seen;
  const PerplexityResult result =
      perplexity(*engine, tokens, {.n_ctx = 100}, [&](int64_t, int64_t, double ppl) { seen.push_back(ppl); });
  EXPECT_EQ(result.n_scored, n);
  EXPECT_NEAR(result.ppl, std::exp(sum / static_cast<double>(n)), 1e-9 * result.ppl);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(result.running, seen);
  EXPECT_EQ(seen.back(), result.ppl);
  EXPECT_GT(result.uncertainty, 0);
}

TEST(Perplexity, SameForAnyBatchAndThreads) {
  EngineConfig config = test::tiny_config(test::tiny_model_file({.type = DType::kQ8_0}));
  const std::vector<int32_t> tokens = test::random_tokens(250, 1);
  double expected = 0;
  for (const int n_ubatch : {1, 64, 256}) {
    for (const int n_threads : {1, 2}) {
      config.n_ubatch = n_ubatch;
      config.n_threads = n_threads;
      const double ppl = perplexity(*test::load_engine(config, "cpu"), tokens, {.n_ctx = 100}).ppl;
      if (expected == 0) expected = ppl;
      EXPECT_EQ(ppl, expected);
    }
  }
}

TEST(Perplexity, NanIsAnError) {
  test::TinyModel model;
  model.edit = [](std::string_view name, std::vector<float>& values) {
    if (name == "blk.0.ffn_down.weight") values[5] = std::nanf("");
  };
  const auto engine = test::load_tiny(model);
  EXPECT_THAT(test::error_of([&] { perplexity(*engine, test::random_tokens(250, 1), {.n_ctx = 100}); }),
              HasSubstr("NaN"));
  engine->check_invariants();
}

}  // namespace
}  // namespace loci
