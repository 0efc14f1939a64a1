#include "engine/eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace loci {

double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum);
}

std::vector<EvalWindow> perplexity_windows(const std::vector<int32_t>& tokens, int32_t bos,
                                           const PerplexityOptions& options) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t n_ctx = options.n_ctx;
  if (n_ctx < 4) fail(ErrorKind::kInvalidInput, "context size: expected at least 4 tokens, found ", n_ctx);
  std::vector<EvalWindow> windows;
  const auto wanted = [&] { return options.n_chunks < 0 || static_cast<int64_t>(windows.size()) < options.n_chunks; };

  if (options.stride <= 0) {
    if (n_tokens < 2 * n_ctx) {
      fail(ErrorKind::kInvalidInput, "text too short: expected at least ", 2 * n_ctx, " tokens (twice the context of ",
           n_ctx, "), found ", n_tokens);
    }
    for (int64_t start = 0; start + n_ctx <= n_tokens && wanted(); start += n_ctx) {
      EvalWindow window;
      window.tokens.assign(tokens.begin() + start, tokens.begin() + start + n_ctx);
      if (bos >= 0) window.tokens[0] = bos;
      window.first_scored = n_ctx / 2;
      window.end_scored = n_ctx - 1;
      windows.push_back(std::move(window));
    }
    return windows;
  }

  // Strided: windows of n_ctx tokens start every `stride` tokens; each scores the tokens no earlier one scored. A BOS
  // stands in front of the window, so that the first token of the text is scored too.
  const bool has_bos = bos >= 0;
  const int64_t first_text = has_bos && !tokens.empty() && tokens[0] == bos ? 1 : 0;
  const int64_t n_text = n_tokens - first_text;
  if (options.stride > n_ctx) {
    fail(ErrorKind::kInvalidInput, "stride: expected at most the context of ", n_ctx, " tokens, found ",
         options.stride);
  }
  if (n_text < n_ctx) {
    fail(ErrorKind::kInvalidInput, "text too short: expected at least ", n_ctx, " tokens (the context), found ",
         n_text);
  }
  for (int64_t start = 0, scored = 0; scored < n_text && wanted(); start += options.stride) {
    const int64_t end = std::min(start + n_ctx, n_text);
    EvalWindow window;
    if (has_bos) window.tokens.push_back(bos);
    window.tokens.insert(window.tokens.end(), tokens.begin() + first_text + start, tokens.begin() + first_text + end);
    const int64_t n_window = static_cast<int64_t>(window.tokens.size());
    window.end_scored = n_window - 1;
    window.first_scored = std::max<int64_t>(0, window.end_scored - (end - scored));
    scored = end;
    windows.push_back(std::move(window));
  }
  return windows;
}

PerplexityResult perplexity(Engine& engine, const std::vector<int32_t>& tokens, const PerplexityOptions& options,
                            const std::function<void(int64_t, int64_t, double)>& on_chunk,
                            const std::function<void(std::span<const float>)>& on_row) {
  const SpecialTokens& special = engine.tokenizer().special();
  const std::vector<EvalWindow> windows = perplexity_windows(tokens, special.add_bos ? special.bos : -1, options);
  PerplexityResult result;
  double sum = 0, sum_squares = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const EvalWindow& window = windows[i];
    engine.evaluate(window.tokens, window.first_scored, 0, [&](int64_t row, std::span<const float> logits) {
      if (row >= window.end_scored) return;
      const int32_t target = window.tokens[static_cast<size_t>(row) + 1];
      const double nll = log_sum_exp(logits) - logits[static_cast<size_t>(target)];
      if (std::isnan(nll)) {
        fail(ErrorKind::kInternal, "chunk ", i + 1, ": the model computed NaN logits at position ", row);
      }
      sum += nll;
      sum_squares += nll * nll;
      ++result.n_scored;
      if (on_row) on_row(logits);
    });
    result.running.push_back(std::exp(sum / static_cast<double>(result.n_scored)));
    if (on_chunk) on_chunk(static_cast<int64_t>(i), static_cast<int64_t>(windows.size()), result.running.back());
  }
  const auto n = static_cast<double>(result.n_scored);
  if (result.n_scored == 0) return result;
  result.mean_nll = sum / n;
  result.ppl = std::exp(result.mean_nll);
  const double variance = sum_squares / n - result.mean_nll * result.mean_nll;
  if (result.n_scored > 1 && variance > 0) result.uncertainty = std::sqrt(variance / (n - 1)) * result.ppl;
  return result;
}

}  // namespace loci
