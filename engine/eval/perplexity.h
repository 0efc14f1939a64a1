// Perplexity exactly as llama.cpp defines it, so that figures compare: docs/evaluation.md.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace loci {

struct PerplexityOptions {
  int64_t n_ctx = 512;
  int64_t n_chunks = -1;  // -1: all
  int64_t stride = 0;     // > 0: strided evaluation (--ppl-stride)
};

struct PerplexityResult {
  int64_t n_scored = 0;
  double mean_nll = 0, ppl = 0, uncertainty = 0;  // uncertainty: one standard error of ppl
  std::vector<double> running;                    // cumulative ppl after each chunk
};

// One stretch of text that is evaluated by itself, from position 0.
//   tokens   what is evaluated; the first one may be a BOS put in place of, or before, the text's own
//   scored   predictions made at positions [first_scored, end_scored): of tokens[position + 1]
struct EvalWindow {
  std::vector<int32_t> tokens;
  int64_t first_scored = 0, end_scored = 0;
};

// The windows of a text. `bos`: the token that stands at the start of each window, -1: none.
// Throws Error(kInvalidInput) with both numbers when the text is too short.
std::vector<EvalWindow> perplexity_windows(const std::vector<int32_t>& tokens, int32_t bos,
                                           const PerplexityOptions& options);

// ln of the sum of e^logit, in double: logit - log_sum_exp is a token's log-probability.
double log_sum_exp(std::span<const float> logits);

// `on_chunk(i, n, running ppl)` after each chunk, `on_row` with the logits of each scored position, in order.
// Throws Error when the text is too short or a logit is NaN.
PerplexityResult perplexity(Engine& engine, const std::vector<int32_t>& tokens, const PerplexityOptions& options,
                            const std::function<void(int64_t, int64_t, double)>& on_chunk = {},
                            const std::function<void(std::span<const float>)>& on_row = {});

}  // namespace loci
