// Bit for bit the same logits on real models, for any threads, chunks and company, on the instruction set that
// LOCI_ISA forces. Skips models that are not on this machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

struct RealModel {
  const char* file;
  int n_tokens;         // of the text
  int n_tokens_scalar;  // the same where LOCI_ISA=scalar: some fifty times slower
};

class ModelEquivalence : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    path_ = test::models_folder() / GetParam().file;
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << "no model at " << path_;
    const char* isa = std::getenv("LOCI_ISA");
    const bool is_scalar = isa != nullptr && std::string(isa) == "scalar";
    n_tokens_ = is_scalar ? GetParam().n_tokens_scalar : GetParam().n_tokens;
  }

  std::unique_ptr<Engine> load(int n_threads) const {
    EngineConfig config;
    config.model_path = path_;
    config.n_ctx = 2048;
    config.n_threads = n_threads;
    return Engine::load(config);
  }

  // Logits of the last three tokens.
  static std::vector<std::vector<float>> logits(Engine& engine, std::span<const int32_t> tokens, int chunk) {
    std::vector<std::vector<float>> rows;
    const auto n = static_cast<int64_t>(tokens.size());
    engine.evaluate(tokens, std::max<int64_t>(0, n - 3), chunk,
                    [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
    return rows;
  }

  std::filesystem::path path_;
  int n_tokens_ = 0;
};

TEST_P(ModelEquivalence, ThreadsChunksAndCompany) {
  const auto engine = load(2);
  std::vector<int32_t> tokens = engine->tokenizer().encode("Once upon a time, in a land far away,", true, false);
  const std::vector<int32_t> random = test::random_tokens(n_tokens_, 1);
  tokens.insert(tokens.end(), random.begin(), random.end());
  tokens.resize(static_cast<size_t>(n_tokens_));

  const auto expected = logits(*engine, tokens, 0);
  for (const int chunk : {1, 7, 64}) EXPECT_EQ(logits(*engine, tokens, chunk), expected) << "chunks of " << chunk;
  for (const int n_threads : {1, 4}) {
    const auto other = load(n_threads);
    EXPECT_EQ(logits(*other, tokens, 0), expected) << n_threads << " threads";
    EXPECT_EQ(logits(*other, tokens, 33), expected) << n_threads << " threads, chunks of 33";
  }
  std::vector<std::vector<int32_t>> company;
  for (int i = 0; i < 8; ++i) company.push_back(test::random_tokens(1 + i * n_tokens_ / 20, static_cast<uint32_t>(i)));
  company[5] = tokens;
  EXPECT_EQ(engine->evaluate_batch(company)[5], expected.back());
}

// Decoding one after the other or eight at once gives the same tokens.
TEST_P(ModelEquivalence, AnswersAloneOrTogether) {
  const auto engine = load(2);
  EngineConfig config = engine->config();
  config.max_sequences = 8;
  const auto shared = Engine::load(config);
  const int n_answer = n_tokens_ >= 64 ? 8 : 2;
  std::vector<test::RecordingSink> sinks(8);
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 8; ++i) {
    prompts.push_back(i % 2 == 0 ? test::random_tokens(7, 1) : test::random_tokens(1 + i * n_tokens_ / 20, 2));
    shared->submit(test::greedy(prompts.back(), n_answer, sinks[static_cast<size_t>(i)]));
  }
  shared->run_until_idle();
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i].tokens, test::generate(*engine, prompts[i], n_answer)) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelEquivalence,
                         testing::Values(RealModel{"smollm2-135m-instruct-q4_1.gguf", 100, 16},
                                         RealModel{"gemma-3-270m-q4_k_m.gguf", 560, 8}),  // its window is 512
                         [](const auto& model) { return test::test_name(model.param.file); });

}  // namespace
}  // namespace loci
