#include "main/bench_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace loci::cli {
namespace {

using testing::HasSubstr;

BenchRow sample_row() {
  BenchRow row;
  row.setup = {"models/tiny \"x\".gguf", 2048, 512, 2, KvFormat::kF16, KvFormat::kF16};
  row.test = {512, 0, 0};
  row.model.architecture = "llama";
  row.model.quantization = "Q4_1";
  row.model.backend = "CPU";
  row.model.file_bytes = 98362432;
  row.model.n_params = 134515008;
  row.test_time = "2025-01-02T03:04:05Z";
  row.samples_ns = {1000000000, 2000000000, 1500000000};
  row.work = {.bytes = 3e9, .int8_macs = 30e9, .bf16_macs = 0, .f32_macs = 15e9};
  return row;
}

BenchRow row_with_roofline() {
  BenchRow row = sample_row();
  row.roofline = cpu::Roofline{.isa = "avx2", .n_threads = 2, .read_bytes = 8e9, .int8_macs = 60e9, .f32_macs = 30e9};
  return row;
}

std::string printed(const std::string& format, const std::vector<BenchRow>& rows) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  std::vector<BenchSetup> setups;
  for (const BenchRow& row : rows) setups.push_back(row.setup);
  const auto printer = make_bench_printer(format, setups, out);
  printer->begin();
  for (const BenchRow& row : rows) printer->row(row);
  printer->end();
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(BenchOutput, Statistics) {
  const BenchRow row = sample_row();
  EXPECT_DOUBLE_EQ(row.avg_ns(), 1.5e9);
  EXPECT_DOUBLE_EQ(row.stddev_ns(), 0.5e9);  // of the sample: divided by n - 1
  EXPECT_THAT(row.samples_ts(), testing::ElementsAre(512, 256, testing::DoubleNear(512 / 1.5, 1e-9)));
  EXPECT_NEAR(row.avg_ts(), (512 + 256 + 512 / 1.5) / 3, 1e-9);
}

TEST(BenchOutput, RatesAndSharesOfTheCeiling) {
  const BenchRow row = row_with_roofline();  // 1.5 s on average
  EXPECT_DOUBLE_EQ(row.bytes_per_token(), 3e9 / 512);
  EXPECT_DOUBLE_EQ(row.gb_per_s(), 2);
  EXPECT_DOUBLE_EQ(row.gmacs_per_s(), 30);
  EXPECT_DOUBLE_EQ(row.read_share(), 0.25);
  EXPECT_DOUBLE_EQ(row.mac_share(), (0.5 + 0.5) / 1.5);
  EXPECT_EQ(sample_row().read_share(), 0);
}

TEST(BenchOutput, RooflineInEveryFormat) {
  const auto measured = nlohmann::json::parse(printed("jsonl", {row_with_roofline()}));
  EXPECT_EQ(measured["read_gb_s"], 2.0);
  EXPECT_EQ(measured["read_share"], 0.25);
  EXPECT_EQ(measured["peak_int8_gmac_s"], 60.0);
  EXPECT_TRUE(measured["peak_bf16_gmac_s"].is_null());
  const auto skipped = nlohmann::json::parse(printed("jsonl", {sample_row()}));
  EXPECT_EQ(skipped["read_gb_s"], 2.0);
  EXPECT_TRUE(skipped["read_share"].is_null());
  const std::string table = printed("md", {row_with_roofline()});
  EXPECT_THAT(table, HasSubstr("2.0 (25 %)"));
  EXPECT_THAT(table, HasSubstr("30.0 (67 %)"));
  EXPECT_THAT(table, HasSubstr("peak: avx2, 2 threads: read 8.0 GB/s, int8 60, f32 30 GMAC/s"));
  EXPECT_EQ(printed("md", {sample_row()}).find("peak: "), std::string::npos);
  EXPECT_THAT(printed("sql", {sample_row()}), HasSubstr("read_share REAL"));
  EXPECT_THAT(printed("sql", {sample_row()}), HasSubstr(", NULL,"));
  EXPECT_THAT(printed("csv", {sample_row()}), HasSubstr("\"30.0\",,,"));
}

TEST(BenchOutput, JsonHasTheCustomaryKeys) {
  const auto rows = nlohmann::json::parse(printed("json", {sample_row(), sample_row()}));
  ASSERT_EQ(rows.size(), 2u);
  for (const char* key : {"build_commit",   "cpu_info", "backends",  "model_filename", "model_type", "model_size",
                          "model_n_params", "n_batch",  "n_ubatch",  "n_threads",      "type_k",     "type_v",
                          "n_gpu_layers",   "n_prompt", "n_gen",     "n_depth",        "test_time",  "avg_ns",
                          "stddev_ns",      "avg_ts",   "stddev_ts", "samples_ns",     "samples_ts"}) {
    EXPECT_TRUE(rows[0].contains(key)) << key;
  }
  EXPECT_EQ(rows[0]["n_prompt"], 512);
  EXPECT_EQ(rows[0]["avg_ns"], 1500000000);
  EXPECT_EQ(rows[0]["samples_ns"][1], 2000000000);
}

TEST(BenchOutput, JsonLines) {
  const std::string text = printed("jsonl", {sample_row(), sample_row()});
  const size_t end = text.find('\n');
  EXPECT_EQ(nlohmann::json::parse(text.substr(0, end))["model_type"], "llama Q4_1");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(BenchOutput, InvalidTextInAModelNameIsReplaced) {
  BenchRow row = sample_row();
  row.setup.model_path = "bad\xff.gguf";
  EXPECT_NO_THROW(nlohmann::json::parse(printed("json", {row})));
  EXPECT_FALSE(printed("csv", {row}).empty());
}

TEST(BenchOutput, CsvQuotesEveryValue) {
  const std::string text = printed("csv", {sample_row()});
  EXPECT_THAT(text, HasSubstr("build_commit,build_number,"));
  EXPECT_THAT(text, HasSubstr(R"("models/tiny ""x"".gguf")"));
}

TEST(BenchOutput, SqlCreatesAndInserts) {
  const std::string text = printed("sql", {sample_row()});
  EXPECT_THAT(text, HasSubstr("CREATE TABLE IF NOT EXISTS llama_bench ("));
  EXPECT_THAT(text, HasSubstr("n_prompt INTEGER"));
  EXPECT_THAT(text, HasSubstr("INSERT INTO llama_bench ("));
}

TEST(BenchOutput, MarkdownShowsColumnsThatVary) {
  BenchRow row = sample_row();
  const std::string plain = printed("md", {row});
  EXPECT_THAT(plain, HasSubstr("| llama Q4_1"));
  EXPECT_THAT(plain, HasSubstr("93.81 MiB"));
  EXPECT_THAT(plain, HasSubstr("134.52 M"));
  EXPECT_THAT(plain, HasSubstr("pp512"));
  EXPECT_THAT(plain, HasSubstr("±"));
  EXPECT_EQ(plain.find("n_ubatch"), std::string::npos);
  row.setup.n_ubatch = 256;
  EXPECT_THAT(printed("md", {row}), HasSubstr("n_ubatch"));
}

}  // namespace
}  // namespace loci::cli
