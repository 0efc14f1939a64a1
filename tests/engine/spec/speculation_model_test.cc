// Speculation on real models: the 0.5B drafts for the 1.5B; n-grams for the small ones. Skips models that are not here.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/spec/speculation_helpers.h"

namespace loci {
namespace {

using test::fixed;
using test::request_for;
using test::Result;

struct Pair {
  const char* target;
  const char* draft;  // "": none
};

class RealSpeculation : public testing::TestWithParam<Pair> {};

TEST_P(RealSpeculation, SameTokensAndLogprobs) {
  const std::filesystem::path target = test::models_folder() / GetParam().target;
  const std::filesystem::path draft = test::models_folder() / GetParam().draft;
  for (const auto& path : {target, draft}) {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model at " << path;
  }
  EngineConfig config;
  config.model_path = target;
  config.n_ctx = 512;
  config.n_threads = 2;
  const bool has_draft = *GetParam().draft != '\0';
  if (has_draft) config.draft_model_path = draft;
  const auto engine = Engine::load(config);
  const std::vector<int32_t> prompt = engine->tokenizer().encode(
      "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a - b\n\ndef multiply(a, b):\n", true,
      false);
  for (const bool is_sampled : {false, true}) {
    const auto ask = [&](const Speculation& speculation) {
      Result result;
      Request request = request_for(prompt, 24, result, speculation);
      if (is_sampled) request.sampling.temperature = 0.8f;
      request.sampling.seed = 5;
      engine->submit(std::move(request));
      engine->run_until_idle();
      engine->check_invariants();
      return result;
    };
    const Result plain = ask({});
    std::vector<Speculation> all{fixed(SpeculationMode::kNgram, 6), fixed(SpeculationMode::kNgram, 6, 2)};
    if (has_draft) {
      all.push_back(fixed(SpeculationMode::kDraft, 4));
      all.push_back(fixed(SpeculationMode::kDraft, 6, 2));
      all.push_back({.mode = SpeculationMode::kAuto});
    }
    for (const Speculation& speculation : all) {
      const Result result = ask(speculation);
      EXPECT_EQ(result.tokens, plain.tokens);
      EXPECT_EQ(result.logprobs, plain.logprobs);
      // Whether an n-gram of 24 sampled tokens comes again is up to the model.
      if (!speculation.adaptive) {
        EXPECT_GT(result.stats.speculation.n_drafted, 0);
      }
      if (speculation.mode == SpeculationMode::kDraft) {
        EXPECT_GT(result.stats.speculation.n_accepted, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RealSpeculation,
    testing::Values(Pair{"qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"},
                    Pair{"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", ""}, Pair{"smollm2-135m-instruct-q4_1.gguf", ""},
                    Pair{"gemma-3-270m-q4_k_m.gguf", ""}),
    [](const auto& which) { return test::test_name(which.param.target); });

TEST(RealSpeculation, AnotherVocabularyIsNamed) {
  const std::filesystem::path target = test::models_folder() / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
  const std::filesystem::path draft = test::models_folder() / "smollm2-135m-instruct-q4_1.gguf";
  for (const auto& path : {target, draft}) {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model at " << path;
  }
  EngineConfig config;
  config.model_path = target;
  config.draft_model_path = draft;
  const std::string message = test::error_of([&] { Engine::load(config); });
  EXPECT_NE(message.find("vocabularies differ: its token"), std::string::npos) << message;
}

}  // namespace
}  // namespace loci
