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

// The same answers, greedy and sampled: cold, on a prefix hit, after either kind of preemption, alone or among 3 or 16,
// in chunks of 16, 64 or 512 rows, with one thread or two, shared prefixes read once or by each.
class ModelScheduling : public ModelEquivalence {
 protected:
  void SetUp() override {
    ModelEquivalence::SetUp();
    if (!IsSkipped() && n_tokens_ == 0) GTEST_SKIP() << "too slow without SIMD";
  }

  EngineConfig config_for(int n_threads, int n_ubatch, int max_sequences, Preemption preemption) const {
    EngineConfig config;
    config.model_path = path_;
    config.n_ctx = 2048;
    config.n_threads = n_threads;
    config.n_ubatch = n_ubatch;
    config.max_sequences = max_sequences;
    config.max_stall_ms = 0;  // chunks as asked for
    config.preemption = preemption;
    return config;
  }
  std::unique_ptr<Engine> load(int n_threads, int n_ubatch, int max_sequences, Preemption preemption) const {
    return Engine::load(config_for(n_threads, n_ubatch, max_sequences, preemption));
  }

  // Request i: odd ones are sampled. All prompts share a beginning.
  Request request(int i, TokenSink& sink) const {
    std::vector<int32_t> prompt = test::random_tokens(n_tokens_, 1);
    const std::vector<int32_t> own = test::random_tokens(3 + i % 5, static_cast<uint32_t>(100 + i));
    prompt.insert(prompt.end(), own.begin(), own.end());
    Request request = test::greedy(std::move(prompt), kAnswer, sink);
    if (i % 2 == 1) request.sampling.temperature = 0.8f;
    request.sampling.seed = i;
    return request;
  }

  static constexpr int kAnswer = 6;
};

TEST_P(ModelScheduling, ChangesNoToken) {
  std::vector<std::vector<int32_t>> expected(16);
  {
    const auto engine = load(2, 512, 16, Preemption::kAuto);
    const int n_alone = n_tokens_ >= 50 ? 16 : 3;
    for (int i = 0; i < n_alone; ++i) {
      test::RecordingSink cold, hit;
      engine->clear_cache();
      engine->submit(request(i, cold));
      engine->run_until_idle();
      EXPECT_EQ(cold.stats.n_cached, 0);
      expected[static_cast<size_t>(i)] = cold.tokens;
      if (i >= 3) continue;
      engine->submit(request(i, hit));
      engine->run_until_idle();
      EXPECT_EQ(hit.stats.n_cached, hit.stats.n_prompt - 1);
      EXPECT_EQ(hit.tokens, cold.tokens) << "prefix hit, request " << i;
    }
    for (const int n_together : {3, n_alone}) {
      engine->clear_cache();
      std::vector<test::RecordingSink> sinks(static_cast<size_t>(n_together));
      for (int i = 0; i < n_together; ++i) engine->submit(request(i, sinks[static_cast<size_t>(i)]));
      engine->run_until_idle();
      for (size_t i = 0; i < sinks.size(); ++i) {
        EXPECT_EQ(sinks[i].tokens, expected[i]) << "request " << i << " of " << n_together;
      }
    }
  }
  // The pages that they share are read once per step, or by each.
  {
    EngineConfig config = config_for(2, 512, 3, Preemption::kAuto);
    config.share_prefixes = false;
    const auto engine = Engine::load(config);
    std::vector<test::RecordingSink> sinks(3);
    for (int i = 0; i < 3; ++i) engine->submit(request(i, sinks[static_cast<size_t>(i)]));
    engine->run_until_idle();
    for (size_t i = 0; i < sinks.size(); ++i)
      EXPECT_EQ(sinks[i].tokens, expected[i]) << "nothing shared, request " << i;
  }
  // One place: the second request, of a higher class, takes it from the first.
  for (const bool swap : {false, true}) {
    const auto engine = swap ? load(2, 64, 1, Preemption::kSwap) : load(1, 16, 1, Preemption::kRecompute);
    test::RecordingSink first, second;
    engine->submit(request(0, first));
    while (first.tokens.size() < 3) engine->step();
    Request urgent = request(1, second);
    urgent.priority = 1;
    engine->submit(urgent);
    engine->step();
    EXPECT_EQ(swap ? engine->metrics().n_preempted_swap : engine->metrics().n_preempted_recompute, 1);
    engine->clear_cache();  // what was given up is really computed again
    engine->run_until_idle();
    EXPECT_EQ(first.tokens, expected[0]) << "preempted, swap " << swap;
    EXPECT_EQ(second.tokens, expected[1]) << "preempting, swap " << swap;
    EXPECT_EQ(engine->metrics().n_recomputed_tokens > 0, !swap);
  }
}

const RealModel kModels[] = {{"smollm2-135m-instruct-q4_1.gguf", 100, 16},
                             {"gemma-3-270m-q4_k_m.gguf", 560, 8}};  // its window is 512

// Prompts reach over several pages; a scalar build has time for the smallest model alone.
const RealModel kScheduled[] = {{"smollm2-135m-instruct-q4_1.gguf", 70, 16},
                                {"gemma-3-270m-q4_k_m.gguf", 70, 0},
                                {"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 70, 0},
                                {"qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 50, 0}};

std::string model_name(const testing::TestParamInfo<RealModel>& info) { return test::test_name(info.param.file); }

INSTANTIATE_TEST_SUITE_P(Models, ModelEquivalence, testing::ValuesIn(kModels), model_name);
INSTANTIATE_TEST_SUITE_P(Models, ModelScheduling, testing::ValuesIn(kScheduled), model_name);

}  // namespace
}  // namespace loci
