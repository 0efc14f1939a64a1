// Several sequences at once: prefill of all prompts, then decode of all together, as llama-batched-bench measures it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "kernels/cpu/roofline.h"
#include "main/bench_work.h"

namespace loci::cli {

struct BatchedTest {
  int64_t n_prompt = 0, n_gen = 0;
  int64_t n_sequences = 1;
  bool shared_prompt = false;  // one prompt for all, evaluated once

  int64_t n_prompt_tokens() const { return shared_prompt ? n_prompt : n_sequences * n_prompt; }
  int64_t n_gen_tokens() const { return n_sequences * n_gen; }
  int64_t n_kv() const { return n_prompt_tokens() + n_gen_tokens(); }
  // Room in the cache that surely holds it: sequences fill whole pages, and generate one token more than is counted.
  int64_t n_ctx(int page_size) const;
};

struct BatchedResult {
  BatchedTest test;
  double prompt_s = 0, gen_s = 0;
  BenchWork prompt_work, gen_work;
  double kv_bytes_per_token = 0;  // K/V that attention has read for a generated token

  double prompt_ts() const { return prompt_s > 0 ? static_cast<double>(test.n_prompt_tokens()) / prompt_s : 0; }
  double gen_ts() const { return gen_s > 0 ? static_cast<double>(test.n_gen_tokens()) / gen_s : 0; }
  double total_s() const { return prompt_s + gen_s; }
  double total_ts() const { return total_s() > 0 ? static_cast<double>(test.n_kv()) / total_s() : 0; }
};

// Empties the cache, then measures. REQUIRES: room for test.n_ctx() tokens and n_sequences sequences.
BatchedResult run_batched(Engine& engine, const ModelWork& matrices, const BatchedTest& test);

class BatchedPrinter {
 public:
  // `json_lines`: an object per line with the keys of llama-batched-bench; otherwise its table.
  BatchedPrinter(bool json_lines, const EngineConfig& config, int n_threads, std::optional<cpu::Roofline> roofline,
                 std::FILE* out);
  void row(const BatchedResult& result);

 private:
  bool json_lines_;
  EngineConfig config_;
  int n_threads_;
  std::optional<cpu::Roofline> roofline_;
  std::FILE* out_;
};

}  // namespace loci::cli
