// Every listed architecture: a tiny model of it computes what the oracle says; damaged numbers are refused.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/model/arch.h"
#include "tests/engine/engine_helpers.h"
#include "tests/support/model_oracle.h"

namespace loci {
namespace {

using test::TinyModel;
using testing::AllOf;
using testing::HasSubstr;

// Largest difference over all positions and tokens.
double largest_difference(const TinyModel& model, const std::string& backend, int n_tokens) {
  const std::string path = test::tiny_model_file(model);
  EngineConfig config = test::tiny_config(path);
  config.precise = true;
  const auto engine = test::load_engine(config, backend);
  const std::vector<int32_t> tokens = test::random_tokens(n_tokens, 7);
  const std::vector<std::vector<float>> found = test::all_logits(*engine, tokens);
  const std::vector<std::vector<double>> expected = test::ModelOracle(path).logits(tokens);
  EXPECT_EQ(found.size(), expected.size());
  double largest = 0;
  for (size_t r = 0; r < expected.size(); ++r) {
    for (size_t i = 0; i < expected[r].size(); ++i) {
      const double difference = std::abs(found[r][i] - expected[r][i]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

std::vector<TinyModel> all_models() {
  std::vector<TinyModel> models;
  for (const ArchEntry& entry : arch_list()) {
    TinyModel model;
    model.arch = entry.name;
    if (model.arch == "gemma3") model.n_layers = 7, model.window = 9;
    models.push_back(model);
    model.tied = true;
    model.n_kv_heads = 1;
    models.push_back(model);
    model.head_dim = 24;  // not dim / n_heads
    model.n_kv_heads = 4;
    model.biases = true;
    models.push_back(model);
  }
  models.push_back({.fused_qkv = true, .rope_freqs = true});
  models.push_back({.arch = "qwen2", .fused_qkv = true});
  models.push_back({.dim = 64, .ffn_dim = 128, .type = DType::kQ8_0});
  return models;
}

// Logits are of order 10; f32 activations and f32 weights are summed over up to 7 layers of about 100 terms.
constexpr double kTolerance = 1e-4;

TEST(Archs, ReferenceBackendMatchesOracle) {
  for (const TinyModel& model : all_models()) {
    SCOPED_TRACE(model.arch + (model.tied ? " tied" : ""));
    EXPECT_LT(largest_difference(model, "reference", 40), kTolerance);
  }
}

TEST(Archs, CpuBackendMatchesOracleInPreciseMode) {
  for (const TinyModel& model : all_models()) {
    SCOPED_TRACE(model.arch + (model.tied ? " tied" : ""));
    EXPECT_LT(largest_difference(model, "cpu", 40), kTolerance);
  }
}

TEST(Archs, LinearScalingAppliesToGlobalLayersAlone) {
  TinyModel model{.arch = "gemma3", .n_layers = 7, .window = 9};
  model.keys = [](gguf::Writer& writer) {
    writer.set_string("gemma3.rope.scaling.type", "linear");
    writer.set_f32("gemma3.rope.scaling.factor", 8);
    writer.set_f32("gemma3.rope.freq_base", 1e6f);
  };
  EXPECT_LT(largest_difference(model, "reference", 40), kTolerance);
}

// One number of a tiny llama replaced: the message names key and value.
std::string refusal(const std::function<void(gguf::Writer&)>& keys) {
  const std::string path = test::tiny_model_file({.keys = keys});
  const std::string by_check = test::error_of([&] { check_loadable(gguf::File::open(path)); });
  const std::string by_load = test::error_of([&] { test::load_engine(test::tiny_config(path)); });
  EXPECT_EQ(by_check, by_load);
  return by_load;
}

std::string refusal_u32(const std::string& key, uint32_t value) {
  return refusal([&](gguf::Writer& writer) { writer.set_u32(key, value); });
}

std::string refusal_f32(const std::string& key, float value) {
  return refusal([&](gguf::Writer& writer) { writer.set_f32(key, value); });
}

TEST(Archs, RefusesNumbersOutOfRange) {
  for (const char* key : {"llama.attention.head_count", "llama.attention.head_count_kv", "llama.block_count",
                          "llama.embedding_length", "llama.feed_forward_length", "llama.rope.dimension_count",
                          "llama.context_length", "llama.attention.key_length"}) {
    EXPECT_THAT(refusal_u32(key, 0), AllOf(HasSubstr(key), HasSubstr("found 0")));
    EXPECT_THAT(refusal_u32(key, 4000000000u), AllOf(HasSubstr(key), HasSubstr("found 4000000000")));
  }
  EXPECT_THAT(refusal_u32("llama.block_count", 513), HasSubstr("from 1 to 512"));
  EXPECT_THAT(refusal_u32("llama.attention.head_count_kv", 3), AllOf(HasSubstr("4 query heads"), HasSubstr("3")));
  EXPECT_THAT(refusal_u32("llama.rope.dimension_count", 7), HasSubstr("even number"));
  EXPECT_THAT(refusal_u32("llama.rope.dimension_count", 18), HasSubstr("head size of 16"));
  EXPECT_THAT(refusal_u32("llama.attention.value_length", 8), HasSubstr("expected the key length 16, found 8"));
  EXPECT_THAT(refusal_u32("llama.expert_count", 8), HasSubstr("mixture-of-experts"));
  const float nan = std::nanf(""), infinity = HUGE_VALF;
  for (const float value : {nan, infinity, 0.0f, -1.0f}) {
    EXPECT_THAT(refusal_f32("llama.attention.layer_norm_rms_epsilon", value), HasSubstr("layer_norm_rms_epsilon"));
    EXPECT_THAT(refusal_f32("llama.rope.freq_base", value), HasSubstr("rope.freq_base"));
  }
  EXPECT_THAT(refusal_f32("llama.rope.scaling.factor", -2), HasSubstr("rope.scaling.factor"));
}

TEST(Archs, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("general.architecture", "xyz\x1b[2J"); }),
              AllOf(HasSubstr("llama, qwen2, qwen3, gemma3"), HasSubstr("xyz\\x1b")));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("general.type", "mmproj"); }), HasSubstr("found 'mmproj'"));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.set_string("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("found 'longrope'"));
  EXPECT_THAT(refusal([](gguf::Writer& w) {
                w.set_i32s("llama.attention.head_count", {4, 4, 4});
              }),
              HasSubstr("one for each of the 2 blocks"));
}

TEST(Archs, TakesOneNumberPerLayer) {
  TinyModel model;
  model.keys = [](gguf::Writer& writer) {
    writer.set_i32s("llama.attention.head_count", {4, 4});
    writer.set_i32s("llama.attention.head_count_kv", {2, 2});
    writer.set_i32s("llama.feed_forward_length", {96, 96});
  };
  EXPECT_LT(largest_difference(model, "reference", 5), kTolerance);
}

TEST(Archs, IgnoresAppendedPredictionLayers) {
  TinyModel model{.n_layers = 3};
  model.keys = [](gguf::Writer& writer) { writer.set_u32("llama.nextn_predict_layers", 1); };
  const auto engine = test::load_tiny(model);
  EXPECT_EQ(engine->arch().layers.size(), 2u);
  model.keys = {};
  model.n_layers = 2;
  EXPECT_EQ(engine->arch().n_layers_file, 3);
}

TEST(Weights, NamesMissingAndMisshapenTensors) {
  const auto without = [](const std::string& missing) {
    TinyModel model;
    model.wanted = [missing](std::string_view name) { return name != missing; };
    return test::error_of([&] { test::load_tiny(model); });
  };
  EXPECT_THAT(without("output_norm.weight"),
              HasSubstr("tensor output_norm.weight: expected [64], found no such tensor"));
  EXPECT_THAT(without("token_embd.weight"), HasSubstr("tensor token_embd.weight: expected [64, 265]"));
  EXPECT_THAT(without("blk.1.attn_v.weight"), HasSubstr("tensor blk.1.attn_v.weight: expected [64, 32]"));
  EXPECT_THAT(refusal_u32("llama.feed_forward_length", 80),
              HasSubstr("tensor blk.0.ffn_gate.weight: expected [64, 80], found [64, 96]"));
  EXPECT_THAT(refusal_u32("llama.block_count", 3), HasSubstr("tensor blk.2.attn_norm.weight"));
}

TEST(Weights, SkipsUnusedTensorsButNotThoseThatMatter) {
  const auto with = [](const std::string& name, const std::string& arch = "llama") {
    TinyModel model{.arch = arch};
    model.keys = [name](gguf::Writer& writer) {
      writer.add_tensor(name, DType::kF32, {16},
                        [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
    };
    return test::tiny_model_file(model);
  };
  EXPECT_THAT(check_loadable(gguf::File::open(with("vision.blk.0.weight"))),
              testing::ElementsAre("vision.blk.0.weight"));
  for (const char* name : {"blk.0.ffn_gate.bias", "blk.0.attn_q.scale", "blk.1.attn_sub_norm.weight", "output.bias"}) {
    EXPECT_THAT(test::error_of([&] { check_loadable(gguf::File::open(with(name))); }), HasSubstr(name));
  }
}

TEST(Overrides, ReplaceMetadata) {
  EngineConfig config = test::tiny_config(test::tiny_model_file({}));
  config.override_kv = {{"llama.rope.freq_base", "float:500"}, {"general.name", "str:other"}};
  const auto engine = test::load_engine(config);
  EXPECT_EQ(engine->info().name, "other");
  EXPECT_EQ(engine->arch().ropes[0].freq_base, 500);
  config.override_kv = {{"llama.rope.freq_base", "float:abc"}};
  EXPECT_THAT(test::error_of([&] { test::load_engine(config); }), HasSubstr("llama.rope.freq_base"));
  config.override_kv = {{"llama.block_count", "int:0"}};
  EXPECT_THAT(test::error_of([&] { test::load_engine(config); }), HasSubstr("llama.block_count"));
}

// Appendix A.1 of the design: D = 4, base 10000, position 3.
TEST(Rope, KnownAngles) {
  RopeSpec rope;
  rope.n_rot = 4;
  RopeAngles angles;
  const int32_t position = 3;
  fill_rope_angles(rope, {}, std::span(&position, 1), angles);
  EXPECT_FLOAT_EQ(angles.cos[0], static_cast<float>(std::cos(3.0)));
  EXPECT_FLOAT_EQ(angles.sin[1], static_cast<float>(std::sin(0.03)));
  rope.freq_scale = 0.5;
  const float factors[] = {1, 2};
  fill_rope_angles(rope, factors, std::span(&position, 1), angles);
  EXPECT_FLOAT_EQ(angles.cos[0], static_cast<float>(std::cos(1.5)));
  EXPECT_FLOAT_EQ(angles.sin[1], static_cast<float>(std::sin(0.0075)));
}

// YaRN of DeepSeek-V3's shape: 4,096 tokens stretched 40 times. Frequencies computed independently: the highest ten
// stay, the lowest are divided by 40, a ramp lies between.
TEST(Rope, Yarn) {
  RopeSpec rope;
  rope.n_rot = 64;
  rope.freq_scale = 1.0 / 40;
  rope.ext_factor = 1;
  rope.original_ctx = 4096;
  RopeAngles angles;
  const int32_t position = 1;
  fill_rope_angles(rope, {}, std::span(&position, 1), angles);
  const double magnitude = 1 + 0.1 * std::log(40.0);
  const std::pair<size_t, double> frequencies[] = {
      {0, 1},           {10, 5.623413e-2}, {11, 3.900693e-2}, {15, 8.334509e-3},
      {16, 5.5e-3},     {20, 7.905694e-4}, {22, 1.778279e-4}, {23, 3.333804e-5},
      {31, 3.333804e-6}};
  for (const auto& [i, frequency] : frequencies) {
    EXPECT_NEAR(angles.sin[i] / (std::sin(frequency) * magnitude), 1, 1e-6) << i;
    EXPECT_NEAR(angles.cos[i], std::cos(frequency) * magnitude, 1e-6) << i;
  }
}

TEST(Rope, OverridesAreChecked) {
  EngineConfig config = test::tiny_config(test::tiny_model_file({}));
  config.rope.scaling_type = "yarn";
  config.rope.scale = 4;
  const auto engine = test::load_engine(config);
  EXPECT_EQ(engine->arch().ropes[0].ext_factor, 1);
  EXPECT_EQ(engine->arch().ropes[0].freq_scale, 0.25);
  config.rope.scaling_type = "stretch";
  EXPECT_THAT(test::error_of([&] { test::load_engine(config); }), HasSubstr("found 'stretch'"));
}

}  // namespace
}  // namespace loci
