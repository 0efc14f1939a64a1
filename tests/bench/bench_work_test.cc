#include "main/bench_work.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "gguf/gguf.h"
#include "tests/support/tiny_model.h"

namespace loci::cli {
namespace {

// Two layers, the second one seeing 4 tokens; 3 heads on 1 K/V head of 32 channels.
struct Counted {
  Counted() {
    LayerSpec layer;
    layer.n_heads = 3;
    layer.n_kv_heads = 1;
    layer.head_dim = 32;
    arch.layers = {layer, layer};
    arch.layers[1].window = 4;
    matrices.layers = {.bytes = 1000, .macs = 50, .quantized_macs = 40};
    matrices.head = {.bytes = 300, .macs = 7, .quantized_macs = 7};
    config.n_ubatch = 8;
  }
  ArchSpec arch;
  ModelWork matrices;
  EngineConfig config;
};

// What is counted from the file is what lies in memory, but for norms and biases.
TEST(BenchWork, CountedMatricesAreThoseInMemory) {
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    for (const bool tied : {false, true}) {
      const test::TinyModel model{.type = type, .tied = tied};
      EngineConfig config;
      config.model_path = test::tiny_model_file(model);
      config.n_ctx = 64;
      config.n_threads = 1;
      const auto engine = Engine::load(config);
      const ModelWork work = count_matrices(gguf::File::open(config.model_path), engine->arch());
      const int64_t q_dim = model.n_heads * model.head_dim, kv_dim = model.n_kv_heads * model.head_dim;
      EXPECT_EQ(work.layers.macs, model.n_layers * model.dim * (2 * q_dim + 2 * kv_dim + 3 * model.ffn_dim));
      EXPECT_EQ(work.head.macs, model.dim * test::kTinyVocab);
      EXPECT_EQ(work.layers.quantized_macs, type == DType::kF32 ? 0 : work.layers.macs);
      const int64_t n_norms = (2 * model.n_layers + 1) * model.dim;
      const int64_t padding = work.head.bytes / test::kTinyVocab * 15;  // panels have 16 rows
      const int64_t counted = work.layers.bytes + work.head.bytes + n_norms * 4;
      EXPECT_GE(engine->info().weight_bytes, counted);
      EXPECT_LE(engine->info().weight_bytes, counted + padding);
    }
  }
}

constexpr double kTokenBytes = 2 * 32 * 2;  // K and V of one head in f16

TEST(BenchWork, DecodeReadsWeightsOnceAndTheVisibleTokens) {
  Counted c;
  BenchWorkCounter counter(c.arch, c.matrices, c.config);
  counter.add_pass({{9, 1}}, 1);
  EXPECT_DOUBLE_EQ(counter.work().bytes, 1000 + 300 + (10 + 4) * kTokenBytes);
  EXPECT_DOUBLE_EQ(counter.work().int8_macs, 47);
  EXPECT_DOUBLE_EQ(counter.work().f32_macs, 10 + (10 + 4) * 2 * 3 * 32);
}

TEST(BenchWork, PrefillReadsWeightsOncePerMicroBatch) {
  Counted c;
  BenchWorkCounter counter(c.arch, c.matrices, c.config);
  counter.add_prefill(2, 12);  // positions 2..9, then 10..13
  const double full = 10 + 14, windowed = 10 + 7;
  EXPECT_DOUBLE_EQ(counter.work().bytes, 2 * 1000 + 300 + (full + windowed) * kTokenBytes);
  const double pairs = (14 * 15 - 2 * 3) / 2.0 + (3 + 11 * 4);
  EXPECT_DOUBLE_EQ(counter.work().int8_macs, 12 * 40 + 7);
  EXPECT_DOUBLE_EQ(counter.work().f32_macs, 12 * 10 + pairs * 2 * 3 * 32);
}

TEST(BenchWork, SequencesTogetherShareTheWeights) {
  Counted c;
  BenchWorkCounter counter(c.arch, c.matrices, c.config);
  counter.add_pass({{0, 1}, {5, 1}, {1, 1}}, 3);
  EXPECT_DOUBLE_EQ(counter.work().bytes, 1300 + ((1 + 6 + 2) + (1 + 4 + 2)) * kTokenBytes);
  EXPECT_DOUBLE_EQ(counter.work().int8_macs, 3 * 47);
}

TEST(BenchWork, ArithmeticFollowsModeAndFormats) {
  Counted c;
  c.config.precise = true;
  c.config.kv.k_format = KvFormat::kBF16;
  BenchWorkCounter counter(c.arch, c.matrices, c.config);
  counter.add_pass({{0, 1}}, 0);
  EXPECT_DOUBLE_EQ(counter.work().int8_macs, 0);
  EXPECT_DOUBLE_EQ(counter.work().bf16_macs, 2 * 3 * 32);
  EXPECT_DOUBLE_EQ(counter.work().f32_macs, 50 + 2 * 3 * 32);
  EXPECT_DOUBLE_EQ(counter.work().bytes, 1000 + 2 * kTokenBytes);
}

TEST(BenchWork, LeastTimes) {
  const BenchWork work{.bytes = 30e9, .int8_macs = 100e9, .bf16_macs = 50e9, .f32_macs = 20e9};
  cpu::Roofline roofline{
      .isa = "x", .n_threads = 1, .read_bytes = 10e9, .int8_macs = 200e9, .f32_macs = 50e9, .bf16_macs = 100e9};
  EXPECT_DOUBLE_EQ(work.read_seconds(roofline), 3);
  EXPECT_DOUBLE_EQ(work.mac_seconds(roofline), 0.5 + 0.5 + 0.4);
  roofline.bf16_macs = 0;  // then f32 does it
  EXPECT_DOUBLE_EQ(work.mac_seconds(roofline), 0.5 + 1 + 0.4);
}

}  // namespace
}  // namespace loci::cli
