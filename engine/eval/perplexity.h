// Perplexity exactly as llama.cpp defines it, so that figures compare: docs/evaluation.md.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace loci {

struct PerplexityOptions {
  int64_t n_ctx = 512;
  int64_t n_chunks = -1;   // -1: all
  int64_t stride = 0;      // > 0: strided evaluation (--ppl-stride)
};

struct PerplexityResult {
  int64_t n_scored = 0;
  double mean_nll = 0, ppl = 0, uncertainty = 0;  // uncertainty: one standard error of ppl
  std::vector<double> running;                     // cumulative ppl after each chunk
};

// `on_chunk(i, n, running ppl)` after each chunk. Throws Error when the text is too short or a logit is NaN.
PerplexityResult perplexity(Engine& engine, const std::vector<int32_t>& tokens, const PerplexityOptions& options,
                            const std::function<void(int64_t, int64_t, double)>& on_chunk = {});

}  // namespace loci
