// What `loci bench` is to measure: flags with lists and ranges, expanded to engines and tests.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kv_format/kv_layer.h"
#include "kernels/thread_placement.h"

namespace loci::cli {

// "512", "1,2,4", "1-8", "1-9+2", "1-64*2", and commas between such: the numbers in order. Throws Error naming the
// flag for anything else, and for values below `least`.
std::vector<int64_t> parse_int_list(const std::string& flag, const std::string& text, int64_t least);

// One measurement: n_prompt tokens in one go, then n_gen one by one, after n_depth tokens are in the cache.
struct BenchTest {
  int64_t n_prompt = 0, n_gen = 0, n_depth = 0;

  // "pp512", "tg128", "pp512+tg128", with " @ d4096" when deep.
  std::string name() const;
  int64_t n_tokens() const { return n_prompt + n_gen; }
  // Context it needs; one more than is counted, as the token after the last one is sampled too.
  int64_t n_ctx() const { return n_depth + n_prompt + n_gen + 1; }
};

// What tests share when they run on one loaded engine.
struct BenchSetup {
  std::string model_path;
  int n_batch = 0, n_ubatch = 0, n_threads = 0;
  KvFormat k_format = KvFormat::kF16, v_format = KvFormat::kF16;
  ThreadPlacement placement = {};
};

struct BenchOptions {
  std::vector<std::string> models, n_prompt, n_gen, prompt_and_gen, depth, batch, ubatch, k_format, v_format, threads;
  int64_t repetitions = 5;
  std::string output = "md", output_stderr = "none";
  bool progress = false, no_warmup = false, precise = false, no_roofline = false;
  int64_t delay_s = 0;
  ThreadPlacement placement;

  std::vector<BenchSetup> setups() const;
  std::vector<BenchTest> tests() const;
};

void add_bench_options(CLI::App& app, BenchOptions& options);

}  // namespace loci::cli
