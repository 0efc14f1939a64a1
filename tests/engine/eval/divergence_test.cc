// Base-logits files and divergence statistics.
#include "engine/eval/divergence.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "engine/eval/logits_file.h"
#include "engine/eval/perplexity.h"
#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using testing::HasSubstr;

std::vector<float> some_logits(size_t n, uint32_t seed) {
  std::vector<float> logits;
  for (const int32_t token : test::random_tokens(static_cast<int>(n), seed))
    logits.push_back(static_cast<float>(token) / 16);
  return logits;
}

LogitsFileHeader small_header(int64_t n_vocab) {
  LogitsFileHeader header;
  header.n_ctx = 8;
  header.n_vocab = n_vocab;
  header.n_chunks = 1;
  header.tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  return header;
}

TEST(LogitsFile, KeepsDistributionsToHalfACode) {
  for (const int64_t n_vocab : {64, 65}) {
    const std::string path = test::temporary_path("base.logits");
    {
      LogitsWriter writer(path, small_header(n_vocab));
      for (uint32_t row = 0; row < 3; ++row) writer.add(some_logits(static_cast<size_t>(n_vocab), row));
      writer.finish();
    }
    LogitsReader reader(path);
    EXPECT_EQ(reader.header().n_vocab, n_vocab);
    EXPECT_EQ(reader.header().tokens, small_header(n_vocab).tokens);
    for (uint32_t row = 0; row < 3; ++row) {
      const std::vector<float> logits = some_logits(static_cast<size_t>(n_vocab), row);
      const float top = *std::max_element(logits.begin(), logits.end());
      const std::span<const float> found = reader.next();
      ASSERT_EQ(found.size(), logits.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        const double expected = std::max(logits[i], top - 16) - log_sum_exp(logits);
        EXPECT_NEAR(found[i], expected, 0.51 * 16 / 65535 + 1e-5);
      }
    }
  }
}

// The layout byte for byte, as other programs read it.
TEST(LogitsFile, Layout) {
  const std::string path = test::temporary_path("base.logits");
  {
    LogitsWriter writer(path, small_header(3));
    for (int row = 0; row < 3; ++row) writer.add(std::vector<float>{0, 1, 2});
    writer.finish();
  }
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  ASSERT_EQ(bytes.size(), 8u + 4 + 8 + 8 * 4 + 3 * 2 * 8);
  EXPECT_EQ(bytes.substr(0, 8), "_logits_");
  const auto u16_at = [&](size_t i) {
    uint16_t value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    return value;
  };
  EXPECT_EQ(u16_at(8), 8);
  EXPECT_EQ(u16_at(12), 3);
  EXPECT_EQ(u16_at(16), 1);
  float scale, min_log_prob;
  std::memcpy(&scale, bytes.data() + 52, 4);
  std::memcpy(&min_log_prob, bytes.data() + 56, 4);
  EXPECT_FLOAT_EQ(scale, 2.0f / 65535);
  EXPECT_FLOAT_EQ(min_log_prob, static_cast<float>(-std::log(1 + std::exp(1.0) + std::exp(2.0))));
  EXPECT_EQ(u16_at(60), 0);
  EXPECT_NEAR(u16_at(62), 32767.5, 1);
  EXPECT_EQ(u16_at(64), 65535);
}

TEST(LogitsFile, DamageIsRefused) {
  const std::string path = test::temporary_path("base.logits");
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return test::error_of([&] { LogitsReader reader(path); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("not a base-logits file"));
  EXPECT_THAT(refusal("_logits_"), HasSubstr("not a base-logits file"));
  const std::string header("_logits_\x08\0\0\0\x03\0\0\0\x01\0\0\0", 20);
  EXPECT_THAT(refusal(header), HasSubstr("does not fit its header"));
  EXPECT_THAT(refusal(std::string("_logits_\xff\xff\xff\xff\x03\0\0\0\x01\0\0\0", 20)), HasSubstr("damaged header"));
  EXPECT_THAT(refusal(std::string("_logits_\x08\0\0\0\x03\0\0\0\xff\xff\xff\x7f", 20)), HasSubstr("does not fit"));
  EXPECT_THAT(test::error_of([] { LogitsReader reader("/nonexistent"); }), HasSubstr("No such file"));
}

TEST(Divergence, OfEqualAndUnequalDistributions) {
  const std::vector<float> logits = {1, 2, 3};
  std::vector<float> log_probs;
  for (const float l : logits) log_probs.push_back(static_cast<float>(l - log_sum_exp(logits)));
  Divergence same;
  same.add(log_probs, logits, 0);
  same.add(log_probs, logits, 2);
  EXPECT_NEAR(same.kl()[0], 0, 1e-7);
  EXPECT_NEAR(same.log_ratio().mean, 0, 1e-7);
  EXPECT_EQ(same.same_top().mean, 1);
  EXPECT_NEAR(same.rms_delta_p().mean, 0, 1e-7);
  EXPECT_NEAR(same.ppl().mean, same.base_ppl().mean, 1e-6);

  Divergence other;
  const std::vector<float> half = {std::log(0.5f), std::log(0.5f)}, quarter = {std::log(0.25f), std::log(0.75f)};
  other.add(half, quarter, 0);
  EXPECT_NEAR(other.kl()[0], 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-6);
  EXPECT_NEAR(other.delta_p()[0], -0.25, 1e-6);
  EXPECT_NEAR(other.ppl().mean, 4, 1e-5);
  EXPECT_NEAR(other.base_ppl().mean, 2, 1e-6);
  EXPECT_NEAR(other.difference().mean, 2, 1e-5);
}

TEST(Divergence, Statistics) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(mean_error(values).mean, 2.5);
  EXPECT_DOUBLE_EQ(mean_error(values).error, std::sqrt(1.25 / 3));  // sqrt((mean of squares - mean^2) / (n - 1))
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 4);
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 2.5);
}

}  // namespace
}  // namespace loci
