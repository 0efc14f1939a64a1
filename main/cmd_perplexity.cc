// loci perplexity: figures on stdout in llama.cpp's form, progress and notes on stderr.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "engine/engine.h"
#include "engine/eval/perplexity.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/options.h"

namespace loci::cli {
namespace {

struct Flags {
  std::string file, text;
  PerplexityOptions eval;
  int output_type = 0;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::unique_ptr<Engine> load(const EngineConfig& config) {
  ProgressBar bar("loading");
  return Engine::load(config, [&](int64_t done, int64_t total, std::string_view what) {
    bar.update(static_cast<double>(done), static_cast<double>(total), std::string(what));
    return true;
  });
}

// "12 s left", "3 min 05 s left".
std::string time_left(double seconds) {
  char text[48];
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%ld s left", whole);
  } else {
    std::snprintf(text, sizeof text, "%ld min %02ld s left", whole / 60, whole % 60);
  }
  return text;
}

void print_running(const Flags& flags, int64_t chunk, double ppl) {
  if (flags.output_type == 0) {
    std::printf("[%lld]%.4f,", static_cast<long long>(chunk + 1), ppl);
  } else {
    const int64_t step = flags.eval.stride > 0 ? flags.eval.stride : flags.eval.n_ctx;
    std::printf("%8lld  %.4f\n", static_cast<long long>(chunk * step), ppl);
  }
  std::fflush(stdout);
}

}  // namespace

int cmd_perplexity(const std::vector<std::string>& args) {
  const auto app = make_app("perplexity", "Perplexity of a text under a model, comparable with llama.cpp's.");
  EngineConfig config;
  config.n_ctx = 512;
  Flags flags;
  add_model_options(*app, config);
  app->add_option("-f,--file", flags.file, "text to score; - reads stdin")->type_name("FILE");
  app->add_option("-p,--prompt", flags.text, "text to score")->type_name("TEXT");
  app->add_option("--chunks", flags.eval.n_chunks, "chunks to score; -1: all")->type_name("N");
  app->add_option("--ppl-stride", flags.eval.stride, "score every token, in windows that start N tokens apart")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app->add_option("--ppl-output-type", flags.output_type, "0: one line of running values; 1: a line per chunk")
      ->check(CLI::Range(0, 1))
      ->type_name("0|1");
  if (!parse(*app, args)) return 0;
  if (flags.file.empty() == flags.text.empty()) {
    fail(ErrorKind::kInvalidInput, "no text: give it with -f FILE (- for stdin) or with -p TEXT");
  }
  const std::string text = flags.file.empty() ? flags.text : read_text(flags.file);
  if (config.n_ctx == 0)
    fail(ErrorKind::kInvalidInput, "-c: expected the length of a chunk, at least 4 tokens, found 0");
  flags.eval.n_ctx = config.n_ctx;
  if (flags.eval.stride > 0) ++config.n_ctx;  // a BOS in front of the window
  config.model_path = resolve_model(config.model_path);
  const std::unique_ptr<Engine> engine = load(config);

  const std::vector<int32_t> tokens = engine->tokenizer().encode(text, true, true);
  const SpecialTokens& special = engine->tokenizer().special();
  const std::vector<EvalWindow> windows = perplexity_windows(tokens, special.add_bos ? special.bos : -1, flags.eval);
  std::printf("perplexity: calculating perplexity over %zu chunks, n_ctx=%lld\n", windows.size(),
              static_cast<long long>(flags.eval.n_ctx));
  std::fflush(stdout);
  const double start = now_s();
  ProgressBar bar("scoring");
  const PerplexityResult result = perplexity(*engine, tokens, flags.eval, [&](int64_t i, int64_t n, double ppl) {
    print_running(flags, i, ppl);
    const double per_chunk = (now_s() - start) / static_cast<double>(i + 1);
    if (i == 0)
      log_info("perplexity: ", per_chunk, " s per chunk, ", time_left(per_chunk * static_cast<double>(n - 1)));
    bar.update(static_cast<double>(i + 1), static_cast<double>(n),
               time_left(per_chunk * static_cast<double>(n - i - 1)));
  });
  std::printf("%sFinal estimate: PPL = %.4f +/- %.5f\n", flags.output_type == 0 ? "\n" : "", result.ppl,
              result.uncertainty);
  return 0;
}

}  // namespace loci::cli
