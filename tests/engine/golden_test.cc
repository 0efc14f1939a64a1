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

// Compares the prompts' last logits and greedy continuations. `tolerance`: of a top-64 logit; `margin`: below this
// golden margin a continuation may differ (it is not compared further then).
void check_prompts(Engine& engine, const Json& golden, double tolerance, double margin) {
  double largest = 0, largest_lse = 0;
  int n_same = 0, n_left_early = 0;
  for (const Json& prompt : golden["prompts"]) {
    const std::string id = prompt["id"];
    SCOPED_TRACE(id);
    const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
    const std::vector<float> logits = test::last_logits(engine, tokens);
    const auto ids = prompt["logits"]["top_ids"].get<std::vector<size_t>>();
    const auto values = prompt["logits"]["top_values"].get<std::vector<double>>();
    double difference = 0;
    for (size_t i = 0; i < ids.size(); ++i) difference = std::max(difference, std::abs(logits[ids[i]] - values[i]));
    EXPECT_LE(difference, tolerance);
    const double lse = std::abs(log_sum_exp(logits) - prompt["logits"]["logsumexp"].get<double>());
    EXPECT_LE(lse, tolerance);
    largest = std::max(largest, difference);
    largest_lse = std::max(largest_lse, lse);

    const auto expected = prompt["greedy"]["tokens"].get<std::vector<int32_t>>();
    const auto margins = prompt["greedy"]["margins"].get<std::vector<double>>();
    const std::vector<int32_t> found = test::generate(engine, tokens, static_cast<int64_t>(expected.size()));
    ASSERT_EQ(found.size(), expected.size());
    size_t k = 0;
    while (k < expected.size() && found[k] == expected[k]) ++k;
    if (k == expected.size()) {
      ++n_same;
    } else {
      ++n_left_early;
      EXPECT_LT(margins[k], margin) << "greedy token " << k << " differs";
      std::printf("  %s: leaves the golden continuation at token %zu (margin %.4f)\n", id.c_str(), k, margins[k]);
    }
  }
  std::printf(
      "  top-64 logits within %.2e, log-sum-exp within %.2e; %d continuations equal, %d leave at a small margin\n",
      largest, largest_lse, n_same, n_left_early);
}

TEST_P(Golden, PreciseMatchesPrompts) {
  const auto engine = load(true, KvFormat::kF32);
  check_prompts(*engine, golden_, 1e-3, 1e-3);
}

TEST_P(Golden, DefaultIsCloseOnPrompts) {
  const auto engine = load(false, KvFormat::kF16);
  // 8-bit activations: a lone first token of the 1.5B model has huge ones and moves its logits by several units.
  check_prompts(*engine, golden_, 10, 0.5);
}

struct Divergence {
  double sum = 0, largest = 0;
  int64_t n = 0, n_same_top = 0;

  // KL(p || q) of two rows of logits, p the reference.
  void add(std::span<const float> p, std::span<const float> q) {
    const double p_lse = log_sum_exp(p), q_lse = log_sum_exp(q);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double log_p = p[i] - p_lse;
      if (log_p > -25) kl += std::exp(log_p) * (log_p - (q[i] - q_lse));
    }
    sum += kl;
    largest = std::max(largest, kl);
    ++n;
    const auto top = [](std::span<const float> row) { return std::max_element(row.begin(), row.end()) - row.begin(); };
    n_same_top += top(p) == top(q) ? 1 : 0;
  }
};

// Both modes over the same windows: their perplexities against the golden one, and how far the default mode's
// distributions lie from the precise ones.
TEST_P(Golden, PerplexityAndDivergence) {
  if (!golden_.contains("perplexity")) GTEST_SKIP() << "no perplexity figures: they come with LOCI_SHARED";
  const Json& expected = golden_["perplexity"];
  const auto tokens = expected["tokens"].get<std::vector<int32_t>>();
  const auto precise = load(true, KvFormat::kF32);
  const auto fast = load(false, KvFormat::kF16);
  const SpecialTokens& special = precise->tokenizer().special();
  const int32_t bos = special.add_bos ? special.bos : -1;
  double nll_precise = 0, nll_fast = 0;
  Divergence divergence;
  for (const EvalWindow& window : perplexity_windows(tokens, bos, {.n_ctx = 512})) {
    std::vector<std::vector<float>> rows;
    precise->evaluate(window.tokens, window.first_scored, 0, [&](int64_t row, std::span<const float> logits) {
      if (row >= window.end_scored) return;
      nll_precise += log_sum_exp(logits) - logits[static_cast<size_t>(window.tokens[static_cast<size_t>(row) + 1])];
      rows.emplace_back(logits.begin(), logits.end());
    });
    fast->evaluate(window.tokens, window.first_scored, 0, [&](int64_t row, std::span<const float> logits) {
      if (row >= window.end_scored) return;
      nll_fast += log_sum_exp(logits) - logits[static_cast<size_t>(window.tokens[static_cast<size_t>(row) + 1])];
      divergence.add(rows[static_cast<size_t>(row - window.first_scored)], logits);
    });
  }
  const auto n = static_cast<double>(divergence.n);
  ASSERT_EQ(divergence.n, expected["second_half"]["count"].get<int64_t>());
  const double golden_ppl = expected["second_half"]["ppl"];
  const double precise_ppl = std::exp(nll_precise / n), fast_ppl = std::exp(nll_fast / n);
  EXPECT_NEAR(precise_ppl / golden_ppl, 1, 0.0002);
  EXPECT_NEAR(fast_ppl / golden_ppl, 1, 0.01);
  std::printf("  perplexity: golden %.4f, precise %.4f (%+.4f %%), default with f16 K/V %.4f (%+.3f %%)\n", golden_ppl,
              precise_ppl, 100 * (precise_ppl / golden_ppl - 1), fast_ppl, 100 * (fast_ppl / golden_ppl - 1));
  std::printf("  KL(precise || default): mean %.6f, largest %.4f; same top token %.2f %%\n", divergence.sum / n,
              divergence.largest, 100 * static_cast<double>(divergence.n_same_top) / n);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m",
                                         "qwen2.5-coder-0.5b-instruct-q4_k_m", "qwen2.5-coder-1.5b-instruct-q4_k_m"),
                         [](const auto& model) { return test::test_name(model.param); });

}  // namespace
}  // namespace loci
