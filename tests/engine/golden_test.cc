// Real models against golden outputs (float32 on dequantized weights): --precise must agree closely, the default mode
// as well as 8-bit activations allow. Skips models and goldens that are not on this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/eval/divergence.h"
#include "engine/eval/perplexity.h"
#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using Json = nlohmann::json;

std::filesystem::path shared_folder() {
  const char* folder = std::getenv("LOCI_SHARED");
  return folder != nullptr ? folder : LOCI_SHARED_DEFAULT;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string file = std::string(GetParam()) + ".json";
    std::ifstream in(shared_folder() / "reference/golden" / file);
    if (!in) in = std::ifstream(std::filesystem::path(LOCI_TEST_DATA) / "golden" / file);
    model_path_ = test::models_folder() / (std::string(GetParam()) + ".gguf");
    if (!std::filesystem::exists(model_path_)) GTEST_SKIP() << "no model at " << model_path_;
    if (!in) GTEST_SKIP() << "no golden file " << file;
    golden_ = Json::parse(in);
  }

  std::unique_ptr<Engine> load(bool precise, KvFormat format) const {
    EngineConfig config;
    config.model_path = model_path_;
    config.n_ctx = 1024;
    config.precise = precise;
    config.kv.k_format = config.kv.v_format = format;
    return Engine::load(config);
  }

  std::filesystem::path model_path_;
  Json golden_;
};

// Compares logits and greedy continuations. `tolerance`: of a top-64 logit; `margin`: below this golden margin a
// continuation may differ. The golden tokens are evaluated in one pass and each position's argmax compared: what a
// request generates is the same, bit for bit (equivalence tests), and for the shortest prompts is generated too.
void check_prompts(Engine& engine, const Json& golden, double tolerance, double margin) {
  double largest = 0, largest_lse = 0;
  int n_equal = 0, n_small_margin = 0;
  for (const Json& prompt : golden["prompts"]) {
    const std::string id = prompt["id"];
    SCOPED_TRACE(id);
    const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
    const auto ids = prompt["logits"]["top_ids"].get<std::vector<size_t>>();
    const auto values = prompt["logits"]["top_values"].get<std::vector<double>>();
    const auto greedy = prompt["greedy"]["tokens"].get<std::vector<int32_t>>();
    const auto margins = prompt["greedy"]["margins"].get<std::vector<double>>();
    std::vector<int32_t> all = tokens;
    all.insert(all.end(), greedy.begin(), greedy.end() - 1);
    const auto n_prompt = static_cast<int64_t>(tokens.size());
    size_t n_same = 0;  // greedy tokens before the first that differs
    engine.evaluate(all, n_prompt - 1, 0, [&](int64_t row, std::span<const float> logits) {
      if (row == n_prompt - 1) {
        double difference = 0;
        for (size_t i = 0; i < ids.size(); ++i) difference = std::max(difference, std::abs(logits[ids[i]] - values[i]));
        const double lse = std::abs(log_sum_exp(logits) - prompt["logits"]["logsumexp"].get<double>());
        EXPECT_LE(difference, tolerance);
        EXPECT_LE(lse, tolerance);
        largest = std::max(largest, difference);
        largest_lse = std::max(largest_lse, lse);
      }
      const auto k = static_cast<size_t>(row - n_prompt + 1);
      const auto top = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (k == n_same && top == greedy[k]) {
        ++n_same;
      } else if (k == n_same) {
        n_same = greedy.size() + 1;  // the continuation is left here; what follows is not comparable
        ++n_small_margin;
        EXPECT_LT(margins[k], margin) << "greedy token " << k << " differs";
        std::printf("  %s: leaves the golden continuation at token %zu (margin %.4f)\n", id.c_str(), k, margins[k]);
      }
    });
    if (n_same != greedy.size()) continue;
    ++n_equal;
    if (tokens.size() <= 30) {
      EXPECT_EQ(test::generate(engine, tokens, static_cast<int64_t>(greedy.size())), greedy);
    }
  }
  std::printf(
      "  top-64 logits within %.2e, log-sum-exp within %.2e; %d continuations equal, %d leave at a small margin\n",
      largest, largest_lse, n_equal, n_small_margin);
}

TEST_P(Golden, PreciseMatchesPrompts) {
  const auto engine = load(true, KvFormat::kF32);
  check_prompts(*engine, golden_, 1e-3, 1e-3);
}

TEST_P(Golden, DefaultIsCloseOnPrompts) {
  const auto engine = load(false, KvFormat::kF16);
  check_prompts(*engine, golden_, 1.0, 0.5);
}

// Both modes over the same windows: their perplexities against the golden one, and how far the default mode's
// distributions lie from the precise ones.
// LOCI_TEST_FULL=1 scores all four windows of every model; without it the 1.5B model scores one, to save minutes.
TEST_P(Golden, PerplexityAndDivergence) {
  if (!golden_.contains("perplexity")) GTEST_SKIP() << "no perplexity figures: they come with LOCI_SHARED";
  const Json& expected = golden_["perplexity"];
  const auto tokens = expected["tokens"].get<std::vector<int32_t>>();
  const auto precise = load(true, KvFormat::kF32);
  const auto fast = load(false, KvFormat::kF16);
  const SpecialTokens& special = precise->tokenizer().special();
  const int32_t bos = special.add_bos ? special.bos : -1;
  Divergence divergence;
  const bool is_large = precise->info().n_params > 1'000'000'000 && std::getenv("LOCI_TEST_FULL") == nullptr;
  const int64_t n_windows = is_large ? 1 : expected["windows"].get<int64_t>();
  for (const EvalWindow& window : perplexity_windows(tokens, bos, {.n_ctx = 512, .n_chunks = n_windows})) {
    std::vector<std::vector<float>> rows;  // log-probabilities of the precise mode
    precise->evaluate(window.tokens, window.first_scored, 0, [&](int64_t row, std::span<const float> logits) {
      if (row >= window.end_scored) return;
      const double lse = log_sum_exp(logits);
      std::vector<float>& log_probs = rows.emplace_back(logits.begin(), logits.end());
      for (float& value : log_probs) value = static_cast<float>(value - lse);
    });
    fast->evaluate(window.tokens, window.first_scored, 0, [&](int64_t row, std::span<const float> logits) {
      if (row >= window.end_scored) return;
      divergence.add(rows[static_cast<size_t>(row - window.first_scored)], logits,
                     window.tokens[static_cast<size_t>(row) + 1]);
    });
  }
  ASSERT_EQ(divergence.count(), n_windows * 255);
  const double golden_ppl = expected["second_half"]["cumulative_ppl"][static_cast<size_t>(n_windows - 1)];
  const double precise_ppl = divergence.base_ppl().mean, fast_ppl = divergence.ppl().mean;
  EXPECT_NEAR(precise_ppl / golden_ppl, 1, 0.0002);
  EXPECT_NEAR(fast_ppl / golden_ppl, 1, 0.01);
  EXPECT_LT(mean_error(divergence.kl()).mean, 0.02);
  std::printf("  perplexity: golden %.4f, precise %.4f (%+.4f %%), default with f16 K/V %.4f (%+.3f %%)\n", golden_ppl,
              precise_ppl, 100 * (precise_ppl / golden_ppl - 1), fast_ppl, 100 * (fast_ppl / golden_ppl - 1));
  std::printf("  KL(precise || default): mean %.6f, largest %.4f; same top token %.2f %%\n",
              mean_error(divergence.kl()).mean, *std::max_element(divergence.kl().begin(), divergence.kl().end()),
              100 * divergence.same_top().mean);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m",
                                         "qwen2.5-coder-0.5b-instruct-q4_k_m", "qwen2.5-coder-1.5b-instruct-q4_k_m"),
                         [](const auto& model) { return test::test_name(model.param); });

}  // namespace
}  // namespace loci
