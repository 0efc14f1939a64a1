// What engine tests share: engines on tiny models, a sink that records, error texts.
#pragma once
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/kv/kv_manager.h"
#include "engine/model/arch.h"
#include "kernels/backend.h"
#include "kernels/error.h"
#include "tests/support/reference_backend.h"
#include "tests/support/tiny_model.h"

namespace loci::test {

// Where real models lie: LOCI_MODELS, or the folder that scripts/fetch_model.sh fills.
inline std::filesystem::path models_folder() {
  if (const char* folder = std::getenv("LOCI_MODELS")) return folder;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache/loci/models";
}

// A file's name as part of a test's name.
inline std::string test_name(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
}

// Backends by name: "reference" or "cpu".
inline std::unique_ptr<Backend> make_backend(const std::string& name, const EngineConfig& config) {
  if (name == "reference") return make_reference_backend();
  return make_cpu_backend({config.n_threads, config.n_threads_batch, config.precise, config.share_prefixes});
}

inline EngineConfig tiny_config(const std::string& path) {
  EngineConfig config;
  config.model_path = path;
  config.n_ctx = 256;
  config.n_ubatch = 64;
  config.n_threads = 1;
  config.kv.k_format = config.kv.v_format = KvFormat::kF32;
  return config;
}

// A K/V pool of just enough pages for n_tokens tokens, whatever n_ctx is.
inline void limit_pool(EngineConfig& config, int64_t n_tokens) {
  const ArchSpec arch = read_arch(gguf::File::open(config.model_path).metadata());
  const int64_t n_pages = (n_tokens + config.kv.page_size - 1) / config.kv.page_size;
  config.kv.budget_bytes = pool_bytes(kv_pool_needs(kv_layer_shapes(arch, config.kv), config), n_pages);
}

inline std::unique_ptr<Engine> load_engine(const EngineConfig& config, const std::string& backend = "reference") {
  return Engine::load(config, {}, make_backend(backend, config));
}

inline std::unique_ptr<Engine> load_tiny(const TinyModel& model, const std::string& backend = "reference") {
  return load_engine(tiny_config(tiny_model_file(model)), backend);
}

inline std::vector<std::vector<float>> all_logits(Engine& engine, const std::vector<int32_t>& tokens, int chunk = 0) {
  std::vector<std::vector<float>> rows;
  engine.evaluate(tokens, 0, chunk,
                  [&](int64_t, std::span<const float> logits) { rows.emplace_back(logits.begin(), logits.end()); });
  return rows;
}

// Logits of the last token.
inline std::vector<float> last_logits(Engine& engine, const std::vector<int32_t>& tokens, int chunk = 0) {
  std::vector<float> last;
  engine.evaluate(tokens, static_cast<int64_t>(tokens.size()) - 1, chunk,
                  [&](int64_t, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); });
  return last;
}

struct RecordingSink : TokenSink {
  std::vector<int32_t> tokens;
  std::string text;
  RequestStats stats;
  int n_finished = 0;
  std::vector<int64_t> prompt_done;
  size_t n_top = 0;
  std::function<void()> after_token, after_prompt;

  void on_prompt(int64_t done, int64_t, int64_t) override {
    prompt_done.push_back(done);
    if (after_prompt) after_prompt();
  }
  void on_token(int32_t token, std::string_view shown, std::span<const TokenProb> top) override {
    tokens.push_back(token);
    text += shown;
    n_top = top.size();
    if (after_token) after_token();
  }
  void on_finish(std::string_view shown, const RequestStats& s) override {
    text += shown;
    stats = s;
    ++n_finished;
  }
};

// A greedy request that goes on past end tokens.
inline Request greedy(std::vector<int32_t> prompt, int64_t max_tokens, TokenSink& sink) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  request.stop_at_end = false;
  request.sink = &sink;
  return request;
}

inline std::vector<int32_t> generate(Engine& engine, std::vector<int32_t> prompt, int64_t max_tokens) {
  RecordingSink sink;
  engine.submit(greedy(std::move(prompt), max_tokens, sink));
  engine.run_until_idle();
  return sink.tokens;
}

// The message of the Error that `act` throws; fails the test when it throws none.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "expected an Error";
  return "";
}

}  // namespace loci::test
