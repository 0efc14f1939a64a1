#include "main/answer.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/interrupt.h"
#include "main/progress.h"
#include "server/reasoning.h"

namespace loci::cli {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class ConsoleSink : public TokenSink {
 public:
  ConsoleSink(Console& console, const AnswerRequest& request)
      : console_(console), split_(request.split_reasoning), splitter_(request.prompt.opens_reasoning) {}

  void on_prompt(int64_t done, int64_t total, int64_t cached) override {
    constexpr int64_t kWorthShowing = 128;  // shorter prompts are over before the eye sees a bar
    if (total - cached < kWorthShowing) return;
    if (!progress_) progress_.emplace("prompt");
    progress_->update(static_cast<double>(done), static_cast<double>(total),
                      std::to_string(done) + "/" + std::to_string(total) + " tokens");
    if (done >= total) progress_.reset();
  }

  void on_token(int32_t, std::string_view text, std::span<const TokenProb>) override {
    progress_.reset();
    show(text, false);
  }

  void on_finish(std::string_view text, const RequestStats& stats) override {
    progress_.reset();
    show(text, true);
    result.stats = stats;
    finished = true;
  }

  Answer result;
  bool finished = false;

 private:
  void show(std::string_view text, bool at_end) {
    if (!split_) {
      result.content += text;
      console_.answer(text);
      return;
    }
    for (const server::AnswerPart& part : splitter_.add(text)) show_part(part);
    if (!at_end) return;
    for (const server::AnswerPart& part : splitter_.finish()) show_part(part);
    end_thinking();
  }

  void show_part(const server::AnswerPart& part) {
    if (part.thinking) {
      result.reasoning += part.text;
      if (!console_.stdout_is_terminal()) return;
      if (!thinking_) console_.answer("[Start thinking]\n", Style::kDim);
      thinking_ = true;
      console_.answer(part.text, Style::kDim);
    } else {
      end_thinking();
      result.content += part.text;
      console_.answer(part.text);
    }
  }

  void end_thinking() {
    if (!thinking_) return;
    thinking_ = false;
    console_.end_line();
    console_.answer("[End thinking]\n\n", Style::kDim);
  }

  Console& console_;
  bool split_;
  bool thinking_ = false;
  server::ReasoningSplitter splitter_;
  std::optional<ProgressBar> progress_;
};

// " | drafted 40, accepted 31 (90% 83% 70%)", or nothing.
std::string draft_text(const SpeculationStats& stats) {
  constexpr size_t kPlaces = 5;
  if (stats.n_drafted == 0) return "";
  std::string shares;
  for (size_t i = 0; i < std::min(stats.drafted_at.size(), kPlaces); ++i) {
    const int64_t accepted = i < stats.accepted_at.size() ? stats.accepted_at[i] : 0;
    if (i > 0) shares += " ";
    shares +=
        std::to_string(std::lround(100.0 * static_cast<double>(accepted) / static_cast<double>(stats.drafted_at[i])));
    shares += "%";
  }
  return str(" | drafted ", stats.n_drafted, ", accepted ", stats.n_accepted, " (", shares, ")");
}

// " | masks 0.05 ms each, waited 0.01 ms each", or nothing.
std::string mask_text(const ConstraintCosts& costs) {
  if (costs.n_masks == 0) return "";
  char text[96];
  const auto n = static_cast<double>(costs.n_masks);
  std::snprintf(text, sizeof text, " | masks %.3f ms each, waited %.3f ms each", costs.mask_ms / n, costs.wait_ms / n);
  return text;
}

}  // namespace

std::unique_ptr<Engine> load_with_progress(const EngineConfig& config) {
  const double start_s = seconds_now();
  std::unique_ptr<Engine> engine;
  {
    const size_t slash = config.model_path.rfind('/');
    ProgressBar bar("loading " + config.model_path.substr(slash == std::string::npos ? 0 : slash + 1));
    engine = Engine::load(config, [&](int64_t done, int64_t total, std::string_view what) {
      const double elapsed_s = seconds_now() - start_s;
      const std::string rate = elapsed_s > 0 ? ", " + bytes_text(static_cast<double>(done) / elapsed_s) + "/s" : "";
      bar.update(static_cast<double>(done), static_cast<double>(total),
                 bytes_text(static_cast<double>(done)) + " of " + bytes_text(static_cast<double>(total)) + rate + " " +
                     std::string(what));
      return true;
    });
  }
  return engine;
}

Answer answer(Engine& engine, const AnswerRequest& request, Console& console) {
  ConsoleSink sink(console, request);
  Request job;
  job.prompt = request.prompt.tokens;
  job.sampling = request.sampling;
  job.max_tokens = request.max_tokens;
  job.timeout_ms = request.timeout_ms;
  job.stops = request.stops;
  job.show_special = request.show_special;
  job.speculation = request.speculation;
  job.constraint = request.constraint;
  job.sink = &sink;
  const interrupt::Answering answering(engine);
  engine.submit(std::move(job));
  // A Ctrl-C between the two phases found nothing to cancel; it is honoured here.
  while (!sink.finished && engine.step()) {
    if (answering.interrupted()) engine.cancel_all();
  }
  sink.result.interrupted = answering.interrupted() || sink.result.stats.reason == FinishReason::kCancelled;
  if (sink.result.stats.reason == FinishReason::kError) {
    console.end_line();
    fail(ErrorKind::kInternal, sink.result.stats.error);
  }
  if (sink.result.stats.reason == FinishReason::kDeadline) {
    sink.result.timed_out = true;
    console.end_line();
    log_warn("the answer was cut after ", static_cast<double>(request.timeout_ms) / 1000, " s (--request-timeout)");
  }
  if (sink.result.stats.reason == FinishReason::kContextFull) {
    console.end_line();
    log_warn("the context of ", engine.info().n_ctx, " tokens is full: the answer was cut (-c sets a larger one)");
  }
  return std::move(sink.result);
}

std::string timings_text(const RequestStats& stats, int64_t n_ctx) {
  const auto rate = [](int64_t tokens, double ms) {
    return ms > 0 && tokens > 0 ? 1000.0 * static_cast<double>(tokens) / ms : 0.0;
  };
  const std::string more = draft_text(stats.speculation) + mask_text(stats.constraint);
  char text[300];
  // The first token comes with the prompt's last row: its time is the prompt's.
  std::snprintf(text, sizeof text, "[ Prompt: %.1f t/s | Generation: %.1f t/s | cached %lld | context %lld/%lld%s ]",
                rate(stats.n_prompt - stats.n_cached, stats.prompt_ms), rate(stats.n_predicted - 1, stats.predicted_ms),
                static_cast<long long>(stats.n_cached), static_cast<long long>(stats.n_prompt + stats.n_predicted),
                static_cast<long long>(n_ctx), more.c_str());
  return text + (stats.cache_miss.empty() ? "" : "\n[ Cache: " + visible_controls(stats.cache_miss) + " ]");
}

void load_prompt_cache(Engine& engine, const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return;
  const std::string why_not = engine.load_cache(path);
  if (!why_not.empty()) log_warn("--prompt-cache ", path, ": not used: ", why_not);
}

}  // namespace loci::cli
