// Gemma 3 with the K/V of its windows alone: the logits and tokens of a long text are those with all K/V kept, cold and
// on a prefix hit. Skips when the model is not on this machine.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

constexpr int64_t kWindow = 512, kPage = 16;

class WindowModel : public testing::Test {
 protected:
  void SetUp() override {
    path_ = test::models_folder() / "gemma-3-270m-q4_k_m.gguf";
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << "no model at " << path_;
  }

  std::unique_ptr<Engine> load(bool swa_full, int n_ubatch) const {
    EngineConfig config;
    config.model_path = path_;
    config.n_ctx = 3072;
    config.n_threads = 2;
    config.n_ubatch = n_ubatch;
    config.kv.swa_full = swa_full;
    return Engine::load(config);
  }

  static std::vector<int32_t> text(const Engine& engine, int n_lines) {
    std::string text = "The log of a long voyage.\n";
    for (int day = 1; day <= n_lines; ++day) {
      text += "Day " + std::to_string(day) + ": the wind came from the " + (day % 3 == 0 ? "north" : "south-west") +
              ", we made " + std::to_string(40 + day * 7 % 60) + " miles.\n";
    }
    return engine.tokenizer().encode(text, true, false);
  }

  std::filesystem::path path_;
};

TEST_F(WindowModel, TheSameTokensInLessMemory) {
  const auto full = load(true, 512);
  std::vector<int32_t> prompt = text(*full, 80);
  ASSERT_GT(prompt.size(), 1500u);
  ASSERT_LT(prompt.size(), 2800u);
  const std::vector<int32_t> expected = test::generate(*full, prompt, 32);
  const std::vector<float> expected_logits = test::last_logits(*full, prompt);
  std::vector<int32_t> next = prompt;
  next.insert(next.end(), expected.begin(), expected.end());
  const std::vector<int32_t> more = full->tokenizer().encode("\nAt last we saw land:", false, false);
  next.insert(next.end(), more.begin(), more.end());
  const std::vector<int32_t> expected_next = test::generate(*full, next, 16);

  for (const int n_ubatch : {512, 100}) {
    const auto engine = load(false, n_ubatch);
    EXPECT_LT(engine->info().kv_bytes, full->info().kv_bytes * 2 / 3);
    EXPECT_EQ(engine->info().n_kv_tokens, full->info().n_kv_tokens);
    EXPECT_EQ(test::last_logits(*engine, prompt), expected_logits);
    test::RecordingSink cold, again, goes_on;
    engine->submit(test::greedy(prompt, 32, cold));
    while (engine->step()) {
      engine->check_invariants();
      EXPECT_LE(engine->metrics().window_pages_used, kWindow / kPage + 1);
    }
    EXPECT_EQ(cold.stats.n_cached, 0);
    EXPECT_EQ(cold.tokens, expected);
    EXPECT_GT(engine->metrics().n_evicted_window_pages, 0);
    engine->submit(test::greedy(prompt, 32, again));
    engine->run_until_idle();
    EXPECT_EQ(again.stats.n_cached, static_cast<int64_t>(prompt.size()) - 1);
    EXPECT_EQ(again.tokens, expected);
    engine->submit(test::greedy(next, 16, goes_on));
    engine->run_until_idle();
    EXPECT_EQ(goes_on.stats.n_cached, static_cast<int64_t>(prompt.size() + expected.size()) - 1);
    EXPECT_EQ(goes_on.tokens, expected_next);
    engine->check_invariants();
  }
}

}  // namespace
}  // namespace loci
