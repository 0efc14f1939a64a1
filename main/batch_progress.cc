#include "main/batch_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "kernels/log.h"

namespace loci::cli {
namespace {

std::string number_text(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// "12 s", "1:23", "2:03:04".
std::string duration_text(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  char text[48];
  if (s < 60) {
    std::snprintf(text, sizeof text, "%lld s", s);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  }
  return text;
}

std::string percent_text(int64_t part, int64_t whole) {
  return number_text("%.1f %%", whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0);
}

}  // namespace

BatchProgress::BatchProgress() : on_terminal_(isatty(STDERR_FILENO) != 0) {}

double BatchProgress::elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

bool BatchProgress::due() const {
  return Clock::now() - last_ >= (on_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(30));
}

void BatchProgress::update(const BatchCounts& counts, int64_t n_total, bool is_estimate, int64_t n_running_tokens) {
  if (!due()) return;
  last_ = Clock::now();
  const double elapsed = elapsed_s();
  const int64_t n_over = counts.n_over();
  const int64_t n_here = counts.n_answered + counts.n_failed;
  std::string text = std::to_string(n_over);
  if (n_total >= 0) text += str("/", is_estimate ? "~" : "", std::max(n_total, n_over));
  if (counts.n_failed > 0) text += str(", ", counts.n_failed, " failed");
  const auto n_tokens = static_cast<double>(counts.n_predicted_tokens + n_running_tokens);
  text += number_text(", %.1f t/s", n_tokens / std::max(elapsed, 1e-3));
  text += ", " + percent_text(counts.n_cached_tokens, counts.n_prompt_tokens) + " cached";
  if (n_total > n_over && n_here > 0) {
    text +=
        ", " + duration_text(elapsed * static_cast<double>(n_total - n_over) / static_cast<double>(n_here)) + " left";
  }
  if (on_terminal_) {
    bar_.update(static_cast<double>(n_over), static_cast<double>(std::max({n_total, n_over, int64_t{1}})), text);
  } else {
    log_info("batch: ", text);
  }
}

void BatchProgress::clear() { bar_.clear(); }

std::string batch_summary(const BatchCounts& counts, double elapsed_s, bool interrupted) {
  std::string out = str(interrupted ? "batch interrupted: " : "batch: ", counts.n_answered, " answered, ",
                        counts.n_failed, " failed in ", duration_text(elapsed_s));
  if (counts.n_skipped > 0) out += str("; ", counts.n_skipped, " answered before");
  if (counts.n_skipped_failed > 0) {
    out += str("; ", counts.n_skipped_failed, " failed before (--retry-failed tries them again)");
  }
  if (counts.n_dropped > 0) out += str("; ", counts.n_dropped, " broken off");
  const double seconds = std::max(elapsed_s, 1e-3);
  const int64_t n_computed = counts.n_prompt_tokens - counts.n_cached_tokens + counts.n_predicted_tokens;
  out += str("\ntokens: ", counts.n_prompt_tokens, " of prompts, ",
             percent_text(counts.n_cached_tokens, counts.n_prompt_tokens), " of them from the cache; ",
             counts.n_predicted_tokens, " generated, ",
             number_text("%.1f t/s; ", static_cast<double>(counts.n_predicted_tokens) / seconds),
             number_text("%.1f t/s computed in all", static_cast<double>(n_computed) / seconds));
  return out;
}

}  // namespace loci::cli
