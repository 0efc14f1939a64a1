#include "main/bench_batched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_model.h"

namespace loci::cli {
namespace {

using testing::HasSubstr;

std::unique_ptr<Engine> tiny_engine(const BatchedTest& test) {
  EngineConfig config;
  config.model_path = test::tiny_model_file({});
  config.n_ctx = test.n_ctx(config.kv.page_size);
  config.max_sequences = static_cast<int>(test.n_sequences);
  config.n_ubatch = 32;
  config.n_threads = 1;
  return Engine::load(config);
}

ModelWork matrices_of(const Engine& engine) {
  return count_matrices(gguf::File::open(engine.config().model_path), engine.arch());
}

std::string printed(bool json_lines, const BatchedResult& result, std::optional<cpu::Roofline> roofline) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  BatchedPrinter printer(json_lines, EngineConfig{}, 2, std::move(roofline), out);
  printer.row(result);
  std::fclose(out);
  std::string all(text, size);
  std::free(text);
  return all;
}

TEST(BatchedBench, Counts) {
  const BatchedTest own{100, 20, 4, false}, shared{100, 20, 4, true};
  EXPECT_EQ(own.n_prompt_tokens(), 400);
  EXPECT_EQ(shared.n_prompt_tokens(), 100);
  EXPECT_EQ(own.n_kv(), 480);
  EXPECT_EQ(shared.n_kv(), 180);
  EXPECT_GE(own.n_ctx(16), 4 * 121);
}

TEST(BatchedBench, RunsSequencesTogether) {
  for (const bool shared : {false, true}) {
    for (const int64_t n_gen : {0, 5}) {
      const BatchedTest test{50, n_gen, 3, shared};
      const auto engine = tiny_engine(test);
      const BatchedResult result = run_batched(*engine, matrices_of(*engine), test);
      EXPECT_GT(result.prompt_s, 0);
      EXPECT_EQ(result.gen_s > 0, n_gen > 0);
      EXPECT_GT(result.prompt_work.bytes, 0);
      EXPECT_EQ(result.gen_work.bytes > 0, n_gen > 0);
    }
  }
}

TEST(BatchedBench, WorkOfOneSequenceIsThatOfThePlainBench) {
  const BatchedTest test{50, 1, 1, false};
  const auto engine = tiny_engine(test);
  const ModelWork matrices = matrices_of(*engine);
  const BatchedResult result = run_batched(*engine, matrices, test);
  BenchWorkCounter counter(engine->arch(), matrices, engine->config());
  counter.add_prefill(0, 50);
  EXPECT_DOUBLE_EQ(result.prompt_work.bytes, counter.work().bytes);
  EXPECT_DOUBLE_EQ(result.prompt_work.macs(), counter.work().macs());
  BenchWorkCounter decode(engine->arch(), matrices, engine->config());
  decode.add_pass({{50, 1}}, 1);
  EXPECT_DOUBLE_EQ(result.gen_work.bytes, decode.work().bytes);
}

TEST(BatchedBench, TableAndJson) {
  const BatchedResult result{{128, 32, 4, false}, 2, 0.5, {.bytes = 1e9, .int8_macs = 4e9}, {.bytes = 2e9}};
  const std::string table = printed(false, result, {});
  EXPECT_THAT(table, HasSubstr("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |"));
  EXPECT_THAT(table, HasSubstr("|   128 |     32 |    4 |    640 |    2.000 |   256.00 |    0.500 |   256.00 |"));
  const cpu::Roofline roofline{.isa = "x", .n_threads = 2, .read_bytes = 8e9, .int8_macs = 4e9, .f32_macs = 1e9};
  const auto row = nlohmann::json::parse(printed(true, result, roofline));
  EXPECT_EQ(row["pp"], 128);
  EXPECT_EQ(row["pl"], 4);
  EXPECT_EQ(row["n_kv"], 640);
  EXPECT_EQ(row["speed_tg"], 256.0);
  EXPECT_EQ(row["speed"], 256.0);
  EXPECT_EQ(row["pp_mac_share"], 0.5);
  EXPECT_EQ(row["tg_read_share"], 0.5);
  EXPECT_FALSE(nlohmann::json::parse(printed(true, result, {})).contains("tg_read_share"));
}

}  // namespace
}  // namespace loci::cli
