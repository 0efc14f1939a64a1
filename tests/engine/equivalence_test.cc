// The same logits, bit for bit, whatever the threads, the chunks, the company, the page size: on tiny models of every
// architecture and every kernel type, on the instruction set that LOCI_ISA forces.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "engine/model/arch.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

struct Case {
  test::TinyModel model;
  bool precise = false;
  KvFormat kv = KvFormat::kF16;
};

// The scalar build is some fifty times slower: it gets fewer tokens and kernel types.
bool is_scalar() {
  const char* isa = std::getenv("LOCI_ISA");
  return isa != nullptr && std::string_view(isa) == "scalar";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const ArchEntry& entry : arch_list()) {
    test::TinyModel model{.arch = std::string(entry.name), .dim = 96, .ffn_dim = 160};
    if (model.arch == "gemma3") model.n_layers = 7, model.window = 21;
    all.push_back({model, true, KvFormat::kF32});
    model.type = DType::kQ8_0;
    all.push_back({model, false, KvFormat::kF16});
  }
  for (const KvFormat kv : {KvFormat::kQ8_0, KvFormat::kQ4_0}) {
    all.push_back({{.dim = 128, .n_heads = 6, .head_dim = 64, .ffn_dim = 160, .type = DType::kQ8_0}, false, kv});
  }
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                           DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    if (is_scalar() && type != DType::kQ4_1 && type != DType::kQ6_K) continue;
    const test::TinyModel model{.dim = 256, .n_heads = 4, .head_dim = 64, .ffn_dim = 256, .type = type};
    all.push_back({model, false, KvFormat::kBF16});
    all.push_back({model, true, KvFormat::kF32});
  }
  return all;
}

EngineConfig config_of(const Case& c, const std::string& path) {
  EngineConfig config = test::tiny_config(path);
  config.n_ctx = 1024;
  config.n_ubatch = 160;
  config.precise = c.precise;
  config.kv.k_format = config.kv.v_format = c.kv;
  return config;
}

TEST(Equivalence, ThreadsChunksCompanyAndPages) {
  const int n_tokens = is_scalar() ? 40 : 130;
  for (const Case& c : cases()) {
    SCOPED_TRACE(str(c.model.arch, " ", name(c.model.type), c.precise ? " precise" : ""));
    const std::string path = test::tiny_model_file(c.model);
    EngineConfig config = config_of(c, path);
    const auto engine = test::load_engine(config, "cpu");
    const std::vector<int32_t> tokens = test::random_tokens(n_tokens, 1);
    const std::vector<std::vector<float>> expected = test::all_logits(*engine, tokens);
    for (const int chunk : {1, 7, 64})
      ASSERT_EQ(test::all_logits(*engine, tokens, chunk), expected) << "chunks of " << chunk;

    for (const int n_threads : {2, 4}) {
      config.n_threads = n_threads;
      const auto threaded = test::load_engine(config, "cpu");
      ASSERT_EQ(test::all_logits(*threaded, tokens), expected) << n_threads << " threads";
      ASSERT_EQ(test::all_logits(*threaded, std::vector<int32_t>(tokens.begin(), tokens.begin() + 20), 1),
                std::vector<std::vector<float>>(expected.begin(), expected.begin() + 20));
    }
    config.n_threads = 2;
    config.kv.page_size = 64;
    const auto large_pages = test::load_engine(config, "cpu");
    ASSERT_EQ(test::all_logits(*large_pages, tokens, 33), expected) << "pages of 64";

    // One sequence of the batch is a prefix of the text whose logits are known.
    std::vector<std::vector<int32_t>> company;
    for (int i = 0; i < 8; ++i)
      company.push_back(test::random_tokens(1 + i * n_tokens / 10, static_cast<uint32_t>(i + 2)));
    for (const size_t n : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, tokens.size()}) {
      company[3].assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
      ASSERT_EQ(engine->evaluate_batch(company)[3], expected[n - 1]) << n << " tokens among eight sequences";
      ASSERT_EQ(engine->evaluate_batch({&company[3], 1})[0], expected[n - 1]);
    }
  }
}

// Requests that begin alike answer the same whether attention reads the shared pages once or for each of them.
TEST(Equivalence, SharedPrefixes) {
  const int n_prompt = is_scalar() ? 540 : 1100;
  for (const KvFormat kv : {KvFormat::kF16, KvFormat::kQ8_0}) {
    const test::TinyModel model{
        .dim = 128, .n_heads = 4, .head_dim = 32, .ffn_dim = 160, .n_ctx = 2048, .type = DType::kQ8_0};
    EngineConfig config = config_of({model, false, kv}, test::tiny_model_file(model));
    config.n_ctx = 2048;
    config.max_sequences = 6;
    std::vector<std::vector<int32_t>> expected;
    int64_t bytes[2] = {};
    for (const bool share : {false, true}) {
      for (const int n_threads : {1, 2}) {
        config.share_prefixes = share;
        config.n_threads = n_threads;
        std::unique_ptr<Backend> backend = test::make_backend("cpu", config);
        const Backend& device = *backend;
        const auto engine = Engine::load(config, {}, std::move(backend));
        std::vector<test::RecordingSink> sinks(6);
        for (int i = 0; i < 6; ++i) {
          std::vector<int32_t> prompt = test::random_tokens(n_prompt, 1);
          const std::vector<int32_t> own = test::random_tokens(i + 1, static_cast<uint32_t>(10 + i));
          prompt.resize(static_cast<size_t>(i < 3 ? n_prompt : n_prompt / 2));
          prompt.insert(prompt.end(), own.begin(), own.end());
          engine->submit(test::greedy(prompt, 8, sinks[static_cast<size_t>(i)]));
          if (i == 0) engine->run_until_idle();  // the others find its pages in the cache
        }
        engine->run_until_idle();
        bytes[share] = device.kv_bytes_read();
        std::vector<std::vector<int32_t>> answers;
        for (const test::RecordingSink& sink : sinks) answers.push_back(sink.tokens);
        if (expected.empty()) {
          expected = answers;
          for (const auto& answer : answers) ASSERT_EQ(answer.size(), 8u);
        }
        ASSERT_EQ(answers, expected) << name(kv) << (share ? ", shared, " : ", apart, ") << n_threads << " threads";
      }
    }
    EXPECT_LT(bytes[true], bytes[false]);
  }
}

// A batch is cut into work once for all layers with the same window, and once more for the last rows of the last layer.
TEST(Equivalence, AttentionIsPlannedOncePerStep) {
  for (const bool windows : {false, true}) {
    test::TinyModel model;
    model.n_layers = 7;
    if (windows) model.arch = "gemma3", model.window = 21;
    EngineConfig config = test::tiny_config(test::tiny_model_file(model));
    config.n_threads = 2;
    config.max_sequences = 3;
    auto backend = std::make_unique<cpu::CpuBackend>(CpuBackendConfig{.n_threads = 2});
    const cpu::CpuBackend& device = *backend;
    const auto engine = Engine::load(config, {}, std::move(backend));
    int64_t n_seen = 0;
    const auto plans = [&] {
      return device.attention_plans_made() - std::exchange(n_seen, device.attention_plans_made());
    };
    std::vector<test::RecordingSink> sinks(3);
    for (int i = 0; i < 3; ++i) {
      const auto n = static_cast<size_t>(i);
      engine->submit(test::greedy(test::random_tokens(30 + i, static_cast<uint32_t>(i)), 4, sinks[n]));
    }
    const int n_kinds = windows ? 2 : 1;
    while (engine->step()) {
      const int64_t made = plans();
      EXPECT_GE(made, n_kinds);
      EXPECT_LE(made, n_kinds + 1);
    }
    EXPECT_EQ(plans(), n_kinds);  // the last step: every row is wanted
    EXPECT_GT(engine->metrics().n_steps, 4);
    EXPECT_GT(engine->metrics().kv_bytes_read, engine->metrics().decode_kv_bytes_read);
    EXPECT_GT(engine->metrics().kv_bytes_per_token(), 0);
  }
}

// Default arithmetic against the reference backend: close, and the precise one far closer.
TEST(Equivalence, DevicesAgreeWithTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(str(c.model.arch, " ", name(c.model.type), c.precise ? " precise" : ""));
    const EngineConfig config = config_of(c, test::tiny_model_file(c.model));
    const std::vector<int32_t> tokens = test::random_tokens(40, 1);
    const auto device = test::all_logits(*test::load_engine(config, "cpu"), tokens);
    const auto reference = test::all_logits(*test::load_engine(config, "reference"), tokens);
    double error = 0, magnitude = 0;
    for (size_t r = 0; r < tokens.size(); ++r) {
      for (size_t i = 0; i < reference[r].size(); ++i) {
        error += std::pow(device[r][i] - reference[r][i], 2);
        magnitude += std::pow(reference[r][i], 2);
      }
    }
    // Relative to all logits: 8-bit activations carry about 0.4 % of noise into each product, f32 sums about 1e-6.
    EXPECT_LT(std::sqrt(error / magnitude), c.precise ? 2e-5 : 0.05);
  }
}

}  // namespace
}  // namespace loci
