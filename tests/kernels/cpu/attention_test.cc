// CpuBackend::attention against the oracle, and its promise: a row's bits depend on the row alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "kernels/attention/softmax_state.h"
#include "kernels/cpu/isa.h"
#include "tests/kernels/cpu/attention_harness.h"

namespace loci {
namespace {

std::unique_ptr<Backend> backend_with(int n_threads, bool share_prefixes = true) {
  CpuBackendConfig config;
  config.n_threads = config.n_threads_batch = n_threads;
  config.share_prefixes = share_prefixes;
  return make_cpu_backend(config);
}

// |out - truth| over the row's rms, the largest over all rows.
template <typename Out>
double worst_row_error(const std::vector<Out>& out, const std::vector<double>& truth, int head_dim) {
  double worst = 0;
  for (size_t begin = 0; begin < truth.size(); begin += head_dim) {
    double error = 0, norm = 0;
    for (int d = 0; d < head_dim; ++d) {
      const double difference = double(out[begin + d]) - truth[begin + d];
      error += difference * difference;
      norm += truth[begin + d] * truth[begin + d];
    }
    const double row = std::sqrt(error / norm);
    if (!(row <= worst)) worst = row;  // NaN is the worst
  }
  return worst;
}

// Rows [begin, n_tokens) of one sequence: the worst row at most twice as wrong as the textbook in f32, plus two ulp.
void expect_accurate(const AttentionShape& shape, int n_tokens, AttentionData data, int begin = 0) {
  const auto backend = backend_with(2);
  const std::vector<AttentionSequence> sequences{make_sequence(shape, n_tokens, data, 7)};
  AttentionHarness harness(*backend, shape, sequences, 16);
  harness.store(0, 0, n_tokens);
  harness.attend({{0, begin, n_tokens}});
  const std::vector<double> truth = textbook<double>(shape, sequences[0], begin, n_tokens);
  const std::vector<float> plain = textbook<float>(shape, sequences[0], begin, n_tokens);
  const std::vector<float> out(harness.out(0).end() - truth.size(), harness.out(0).end());
  const double error = worst_row_error(out, truth, shape.head_dim);
  const double bound = 2 * worst_row_error(plain, truth, shape.head_dim) + 2.4e-7;
  EXPECT_LE(error, bound) << "heads " << shape.n_heads << "/" << shape.n_kv_heads << ", head dim " << shape.head_dim
                          << ", K " << name(shape.k_format) << ", V " << name(shape.v_format) << ", data " << int(data)
                          << ", window " << shape.window << ", softcap " << shape.softcap;
}

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0};

TEST(Attention, MatchesTheOracleForEveryFormatAndKindOfData) {
  for (const KvFormat format : kFormats) {
    for (const AttentionData data :
         {AttentionData::kFlat, AttentionData::kPeaky, AttentionData::kOutlier, AttentionData::kSink}) {
      expect_accurate({.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .k_format = format, .v_format = format}, 301,
                      data, 260);
    }
  }
}

TEST(Attention, KAndVMayHaveDifferentFormats) {
  expect_accurate({.n_heads = 4, .n_kv_heads = 2, .k_format = KvFormat::kF32, .v_format = KvFormat::kF16}, 70,
                  AttentionData::kPeaky);
  expect_accurate({.n_heads = 4, .n_kv_heads = 2, .k_format = KvFormat::kBF16, .v_format = KvFormat::kF32}, 70,
                  AttentionData::kPeaky);
  expect_accurate({.n_heads = 4, .n_kv_heads = 2, .k_format = KvFormat::kQ8_0, .v_format = KvFormat::kQ4_0}, 70,
                  AttentionData::kPeaky);
  expect_accurate({.n_heads = 4, .n_kv_heads = 2, .k_format = KvFormat::kQ4_0, .v_format = KvFormat::kF16}, 70,
                  AttentionData::kPeaky);
}

TEST(Attention, AnyHeadDim) {
  for (const int head_dim : {4, 8, 12, 16, 20, 32, 40, 64, 80, 96, 112, 128, 160, 192, 256, 512}) {
    expect_accurate({.n_heads = 3, .n_kv_heads = 1, .head_dim = head_dim}, 40, AttentionData::kFlat);
    for (const KvFormat format : {KvFormat::kQ8_0, KvFormat::kQ4_0}) {
      if (head_dim % kv_format_granule(format) != 0) continue;
      for (const int group : {1, 2, 3}) {
        expect_accurate(
            {.n_heads = group, .n_kv_heads = 1, .head_dim = head_dim, .k_format = format, .v_format = format}, 40,
            AttentionData::kFlat, 37);
      }
    }
  }
}

TEST(Attention, AnyGroup) {
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 130}) {
    expect_accurate({.n_heads = 2 * group, .n_kv_heads = 2, .head_dim = 32}, 40, AttentionData::kFlat, 30);
    expect_accurate({.n_heads = 2 * group, .n_kv_heads = 2, .head_dim = 32}, 40, AttentionData::kFlat, 39);
  }
}

TEST(Attention, SlidingWindow) {
  for (const int window : {1, 2, 15, 16, 17, 100, 255, 256, 257, 512}) {
    expect_accurate({.n_heads = 4, .n_kv_heads = 1, .head_dim = 32, .window = window}, 600, AttentionData::kFlat, 560);
    expect_accurate({.n_heads = 4, .n_kv_heads = 1, .head_dim = 32, .window = window}, 30, AttentionData::kFlat);
  }
}

TEST(Attention, SoftcapAndSinks) {
  AttentionShape shape{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .softcap = 5.0f};
  expect_accurate(shape, 300, AttentionData::kPeaky, 250);
  shape.sinks = {-2.0f, 0.0f, 3.0f, 40.0f};
  expect_accurate(shape, 300, AttentionData::kPeaky, 250);
  shape.softcap = 0;
  shape.window = 128;
  expect_accurate(shape, 300, AttentionData::kPeaky, 250);
  shape.sinks.assign(4, -std::numeric_limits<float>::infinity());  // a sink of weight 0
  expect_accurate(shape, 300, AttentionData::kPeaky, 250);
}

TEST(Attention, HugeScoresStayFinite) {
  const AttentionShape shape{
      .n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .k_format = KvFormat::kF32, .v_format = KvFormat::kF32};
  std::vector<AttentionSequence> sequences{make_sequence(shape, 300, AttentionData::kFlat, 3)};
  for (float& value : sequences[0].k) value *= 1e4f;
  const auto backend = backend_with(1);
  AttentionHarness harness(*backend, shape, sequences, 16);
  harness.store(0, 0, 300);
  harness.attend({{0, 0, 300}});
  const std::vector<double> truth = textbook<double>(shape, sequences[0], 0, 300);
  // Scores reach 4e4, where one unit in the last place of f32 is 4e-3: a weight may be off by that much.
  EXPECT_LE(worst_row_error(harness.out(0), truth, 64), 1e-2);
}

// Decode at the lengths around every boundary of tile, subtile and split; every other slot holds NaN.
class AttentionLengths : public testing::TestWithParam<KvFormat> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionLengths, testing::Values(KvFormat::kF16, KvFormat::kQ8_0, KvFormat::kQ4_0),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(AttentionLengths, AtBoundariesWithPoisonedSlots) {
  const AttentionShape shape{
      .n_heads = 7, .n_kv_heads = 1, .head_dim = 64, .k_format = GetParam(), .v_format = GetParam()};
  const auto backend = backend_with(2);
  std::vector<AttentionSequence> sequences;
  for (const int n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513}) {
    sequences.push_back(make_sequence(shape, n, AttentionData::kPeaky, n));
  }
  for (const int page_size : {16, 64}) {
    AttentionHarness harness(*backend, shape, sequences, page_size);
    std::vector<AttentionHarness::Range> ranges;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int n = sequences[i].n_tokens;
      harness.store(i, 0, n);
      ranges.push_back({i, n - 1, n});
    }
    harness.attend(ranges);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int n = sequences[i].n_tokens;
      const std::vector<double> truth = textbook<double>(shape, sequences[i], n - 1, n);
      const std::vector<float> out(harness.out(i).end() - truth.size(), harness.out(i).end());
      EXPECT_LT(worst_row_error(out, truth, 64), 4e-6) << "length " << n << ", page size " << page_size;
    }
  }
}

// Keys that a row does not see must not touch it, even where their values are not numbers.
TEST(Attention, HiddenKeysWithNanDoNotSpoilOtherRows) {
  const AttentionShape shape{.n_heads = 3, .n_kv_heads = 1, .head_dim = 64, .window = 20};
  std::vector<AttentionSequence> clean{make_sequence(shape, 40, AttentionData::kFlat, 3)};
  std::vector<AttentionSequence> spoilt = clean;
  for (int d = 0; d < 64; ++d) spoilt[0].v[30 * 64 + d] = spoilt[0].k[30 * 64 + d] = NAN;
  const auto backend = backend_with(1);
  AttentionHarness a(*backend, shape, clean, 16), b(*backend, shape, spoilt, 16);
  a.prefill(40);
  b.prefill(40);
  const size_t row = 3 * 64;
  EXPECT_EQ(0, std::memcmp(a.out(0).data(), b.out(0).data(), 30 * row * sizeof(float)));
  EXPECT_TRUE(std::isnan(b.out(0)[30 * row])) << "a NaN that is seen must not vanish";
}

// Rows with infinities, NaN, denormals, huge values and zeros in K and V: those that see a block which cannot be
// represented are not numbers, all others are as if it were not there.
TEST(Attention, HostileValuesInBlocks) {
  for (const KvFormat format : {KvFormat::kQ8_0, KvFormat::kQ4_0}) {
    const AttentionShape shape{.n_heads = 3, .n_kv_heads = 1, .head_dim = 64, .k_format = format, .v_format = format};
    for (const float hostile : {INFINITY, -INFINITY, NAN, 3e38f, 1e9f}) {
      for (const bool in_k : {false, true}) {
        const std::vector<AttentionSequence> clean{make_sequence(shape, 24, AttentionData::kFlat, 3)};
        std::vector<AttentionSequence> spoilt = clean;
        (in_k ? spoilt[0].k : spoilt[0].v)[20 * 64 + 5] = hostile;
        const auto backend = backend_with(1);
        AttentionHarness a(*backend, shape, clean, 16), b(*backend, shape, spoilt, 16);
        a.prefill(24);
        b.prefill(24);
        const size_t row = 3 * 64;
        EXPECT_EQ(0, std::memcmp(a.out(0).data(), b.out(0).data(), 20 * row * sizeof(float)));
        for (size_t r = 20; r < 24; ++r) {
          // A NaN in K spoils the score and so all channels, one in V the 32 channels of its block.
          for (size_t h = 0; h < 3; ++h) EXPECT_TRUE(std::isnan(b.out(0)[r * row + h * 64 + 31])) << hostile;
        }
      }
    }
    std::vector<AttentionSequence> tiny{make_sequence(shape, 24, AttentionData::kFlat, 3)};
    for (size_t i = 0; i < tiny[0].v.size(); ++i) tiny[0].v[i] = i % 3 == 0 ? 1e-41f : i % 3 == 1 ? -0.0f : 0.0f;
    const auto backend = backend_with(1);
    AttentionHarness harness(*backend, shape, tiny, 16);
    harness.prefill(24);
    for (const float value : harness.out(0)) EXPECT_EQ(value, 0.0f);
  }
}

// What every way of computing the same rows must reproduce bit by bit.
struct BitCase {
  AttentionShape shape;
  std::vector<int> lengths;
};

std::vector<BitCase> bit_cases() {
  std::vector<BitCase> cases;
  const auto add = [&](int n_heads, int n_kv_heads, int head_dim, std::vector<int> lengths) -> AttentionShape& {
    BitCase& added = cases.emplace_back();
    added.shape.n_heads = n_heads;
    added.shape.n_kv_heads = n_kv_heads;
    added.shape.head_dim = head_dim;
    added.lengths = std::move(lengths);
    return added.shape;
  };
  for (const KvFormat format : kFormats) {
    const auto set = [&](AttentionShape& shape) { shape.k_format = shape.v_format = format; };
    set(add(6, 2, 64, {270, 40}));
    set(add(2, 1, 128, {270}));
    set(add(1, 1, 256, {270}));
  }
  add(7, 1, 64, {280});
  add(9, 1, 80, {260});
  add(4, 1, 64, {530}).window = 100;
  add(4, 1, 64, {70}).window = 5;
  AttentionShape& capped = add(2, 2, 64, {270});
  capped.softcap = 20;
  capped.sinks = {0.5f, -1};
  return cases;
}

void expect_same_bits(const AttentionHarness& a, const AttentionHarness& b, size_t n_sequences, const char* what,
                      int value) {
  for (size_t i = 0; i < n_sequences; ++i) {
    ASSERT_EQ(a.out(i).size(), b.out(i).size());
    for (size_t j = 0; j < a.out(i).size(); ++j) {
      ASSERT_EQ(std::memcmp(&a.out(i)[j], &b.out(i)[j], sizeof(float)), 0)
          << what << " " << value << ": sequence " << i << ", element " << j << ": " << a.out(i)[j] << " against "
          << b.out(i)[j];
    }
  }
}

class AttentionBits : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    test_case_ = bit_cases()[GetParam()];
    for (size_t i = 0; i < test_case_.lengths.size(); ++i) {
      sequences_.push_back(make_sequence(test_case_.shape, test_case_.lengths[i], AttentionData::kPeaky, 11 + 5 * i));
    }
    reference_ = std::make_unique<AttentionHarness>(*backend_, test_case_.shape, sequences_, 16);
    reference_->prefill(1);  // row by row: decode
  }
  const AttentionShape& shape() const { return test_case_.shape; }

  BitCase test_case_;
  std::vector<AttentionSequence> sequences_;
  std::unique_ptr<Backend> backend_ = backend_with(1);
  std::unique_ptr<AttentionHarness> reference_;
};
INSTANTIATE_TEST_SUITE_P(All, AttentionBits, testing::Range(0, static_cast<int>(bit_cases().size())));

TEST_P(AttentionBits, ChunksThreadsAndPageSizes) {
  for (const int chunk : {7, 16, 64, 512}) {
    AttentionHarness harness(*backend_, shape(), sequences_, 16, true, chunk);
    harness.prefill(chunk);
    expect_same_bits(*reference_, harness, sequences_.size(), "chunk", chunk);
  }
  for (const int n_threads : {2, 3}) {
    const auto backend = backend_with(n_threads);
    for (const int chunk : {1, 64}) {
      AttentionHarness harness(*backend, shape(), sequences_, 16);
      harness.prefill(chunk);
      expect_same_bits(*reference_, harness, sequences_.size(), "threads", n_threads);
    }
  }
  for (const int page_size : {32, 64, 256}) {
    AttentionHarness harness(*backend_, shape(), sequences_, page_size);
    harness.prefill(512);
    expect_same_bits(*reference_, harness, sequences_.size(), "page size", page_size);
  }
}

TEST(AttentionBits, BatchOfOneOrOfEight) {
  const AttentionShape shape{.n_heads = 6, .n_kv_heads = 2, .head_dim = 64};
  const auto backend = backend_with(2);
  std::vector<AttentionSequence> sequences;
  for (const int n : {1, 17, 300, 64, 257, 5, 512, 100}) {
    sequences.push_back(make_sequence(shape, n, AttentionData::kPeaky, 100 + n));
  }
  AttentionHarness together(*backend, shape, sequences, 16), alone(*backend, shape, sequences, 16, true, 9);
  // Mixed: some sequences decode their last token, others prefill a part.
  std::vector<AttentionHarness::Range> ranges;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int n = sequences[i].n_tokens;
    together.store(i, 0, n);
    alone.store(i, 0, n);
    ranges.push_back({i, i % 2 == 0 ? n - 1 : n / 2, n});
    alone.attend({ranges.back()});
  }
  together.attend(ranges);
  expect_same_bits(together, alone, sequences.size(), "batch", 8);
}

// Sequences that begin alike, on two levels: 0..5 share 600 tokens, 0..2 of them 1100. Rows of decode and of short
// drafts beside a prompt that shares too.
class SharedPrefixes : public testing::TestWithParam<KvFormat> {
 protected:
  static constexpr int kFirst = 600, kSecond = 1100;
  static std::vector<AttentionSequence> sequences(const AttentionShape& shape) {
    std::vector<AttentionSequence> all;
    for (const int n : {1300, 1151, 1700, 800, 640, 1030, 900}) {
      all.push_back(make_sequence(shape, n, AttentionData::kPeaky, 100 + n));
    }
    const size_t row = static_cast<size_t>(shape.n_kv_heads) * shape.head_dim;
    const auto copy = [&](AttentionSequence& to, int tokens) {
      std::copy_n(all[0].k.begin(), tokens * row, to.k.begin());
      std::copy_n(all[0].v.begin(), tokens * row, to.v.begin());
    };
    for (size_t i = 1; i < 6; ++i) copy(all[i], i < 3 ? kSecond : kFirst);
    return all;
  }
  static void share(AttentionHarness& harness) {
    for (size_t i = 1; i < 6; ++i) harness.share(i, 0, i < 3 ? kSecond : kFirst);
  }
};
INSTANTIATE_TEST_SUITE_P(All, SharedPrefixes, testing::ValuesIn(kFormats),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(SharedPrefixes, OnOrOffAloneOrTogether) {
  for (const int window : {0, 300, 900}) {
    const AttentionShape shape{.n_heads = 6,
                               .n_kv_heads = 2,
                               .head_dim = 64,
                               .k_format = GetParam(),
                               .v_format = GetParam(),
                               .window = window};
    const std::vector<AttentionSequence> all = sequences(shape);
    std::vector<AttentionHarness::Range> ranges;
    const auto single = backend_with(1);
    AttentionHarness alone(*single, shape, all, 16, true, 9);
    for (size_t i = 0; i < all.size(); ++i) {
      const int n = all[i].n_tokens;
      alone.store(i, 0, n);
      ranges.push_back({i, n - (i == 1 ? 5 : i == 4 ? 40 : 1), n});
      alone.attend({ranges.back()});
    }
    int64_t bytes[2];
    for (const bool on : {false, true}) {
      for (const int n_threads : {1, 2, 3}) {
        const auto backend = backend_with(n_threads, on);
        AttentionHarness together(*backend, shape, all, 16);
        share(together);
        for (size_t i = 0; i < all.size(); ++i) together.store(i, 0, all[i].n_tokens);
        together.attend(ranges);
        expect_same_bits(alone, together, all.size(), on ? "shared, threads" : "apart, threads", n_threads);
        bytes[on] = backend->kv_bytes_read();
      }
    }
    if (window > 0) continue;
    const int64_t split_bytes = static_cast<int64_t>(alone.kv().k_page_bytes() + alone.kv().v_page_bytes()) * 16;
    // Two splits of six sequences, two more of three of them.
    EXPECT_EQ(bytes[0] - bytes[1], (5 * 2 + 2 * 2) * split_bytes * shape.n_kv_heads);
  }
}

// A long sequence is split between threads inside one head: the fold must stay in ascending order.
TEST(AttentionBits, LongSequenceOnManyThreads) {
  for (const int n_rows : {1, 5}) {
    const AttentionShape shape{.n_heads = 4, .n_kv_heads = 1, .head_dim = 64};
    const int n = 2600;
    const std::vector<AttentionSequence> sequences{make_sequence(shape, n, AttentionData::kPeaky, 5)};
    std::unique_ptr<AttentionHarness> first;
    std::unique_ptr<Backend> backends[5];
    for (int n_threads = 1; n_threads <= 5; ++n_threads) {
      backends[n_threads - 1] = backend_with(n_threads);
      auto harness = std::make_unique<AttentionHarness>(*backends[n_threads - 1], shape, sequences, 16);
      harness->store(0, 0, n);
      harness->attend({{0, n - n_rows, n}});
      if (first == nullptr) {
        first = std::move(harness);
        const std::vector<double> truth = textbook<double>(shape, sequences[0], n - n_rows, n);
        const std::vector<float> out(first->out(0).end() - truth.size(), first->out(0).end());
        EXPECT_LT(worst_row_error(out, truth, 64), 4e-6);
      } else {
        expect_same_bits(*first, *harness, 1, "threads", n_threads);
      }
    }
  }
}

// The f32 arithmetic is written with correctly rounded operations in a fixed order: every ISA gives the same bits.
TEST(AttentionBits, EveryInstructionSet) {
  const char* forced = std::getenv("LOCI_ISA");
  const std::string before = forced != nullptr ? forced : "";
  std::vector<AttentionShape> shapes;
  for (const int head_dim : {64, 80, 20}) {
    shapes.push_back({.n_heads = 6, .n_kv_heads = 2, .head_dim = head_dim, .softcap = 30});
  }
  for (const KvFormat format : kFormats) {
    shapes.push_back({.n_heads = 6, .n_kv_heads = 2, .head_dim = 96, .k_format = format, .v_format = format});
    shapes.push_back({.n_heads = 1, .n_kv_heads = 1, .head_dim = 128, .k_format = format, .v_format = format});
  }
  for (const AttentionShape& shape : shapes) {
    const std::vector<AttentionSequence> sequences{make_sequence(shape, 300, AttentionData::kPeaky, 5)};
    std::unique_ptr<AttentionHarness> first;
    std::vector<std::unique_ptr<Backend>> backends;
    for (const std::string_view isa : cpu::available_isas()) {
      setenv("LOCI_ISA", std::string(isa).c_str(), 1);
      backends.push_back(backend_with(1));
      auto harness = std::make_unique<AttentionHarness>(*backends.back(), shape, sequences, 16);
      harness->store(0, 0, 300);
      harness->attend({{0, 280, 300}});
      SCOPED_TRACE(isa);
      if (first == nullptr) {
        first = std::move(harness);
      } else {
        expect_same_bits(*first, *harness, 1, "head dim", shape.head_dim);
      }
    }
  }
  if (before.empty()) {
    unsetenv("LOCI_ISA");
  } else {
    setenv("LOCI_ISA", before.c_str(), 1);
  }
}

TEST(Exp2, ExactAtTheEndsAndAccurateBetween) {
  const cpu::AttentionKernels& kernels = *cpu::choose_kernels().attention;
  std::vector<float> x{0.0f, -0.0f, -1.0f, -124.0f, -125.5f, -200.0f, -1e30f, -INFINITY, NAN, 1.0f, 100.0f};
  std::vector<float> y(x.size());
  kernels.vec_exp2(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 0.5f);
  EXPECT_EQ(y[3], std::exp2(-124.0f));
  for (int i = 4; i < 8; ++i) EXPECT_EQ(y[i], 0.0f) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
  EXPECT_EQ(y[9], 2.0f);
  EXPECT_EQ(y[10], std::exp2(100.0f));

  x.resize(1000001);
  y.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = -125.0f * static_cast<float>(i) / static_cast<float>(x.size());
  kernels.vec_exp2(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(y[i] / std::exp2(double(x[i])) - 1));
  EXPECT_LE(worst, 1.3e-7);
}

// algorithms of the state: (v = 2, lse = 1) merged with (v = -1, lse = 3).
TEST(SoftmaxState, MergeGolden) {
  const auto exp2 = [](float x) { return std::exp2(x); };
  const float max_a = 1.0f * kLog2E, max_b = 3.0f * kLog2E;  // one key each: row_sum = 1
  const MergeWeights w = merge_weights(max_a, max_b, exp2);
  const float row_sum = w.a + w.b;
  EXPECT_NEAR((2.0f * w.a - 1.0f * w.b) / row_sum, -0.6423912f, 2e-7f);
  EXPECT_NEAR(state_lse(w.row_max, row_sum, [](float x) { return std::log2(x); }), 3.1269280f, 5e-7f);
  const float empty = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(merge_weights(max_a, empty, exp2).a, 1.0f);
  EXPECT_EQ(merge_weights(max_a, empty, exp2).b, 0.0f);
  EXPECT_EQ(merge_weights(empty, empty, exp2).row_max, empty);
}

}  // namespace
}  // namespace loci
