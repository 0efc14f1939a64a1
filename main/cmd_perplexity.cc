// loci perplexity: figures on stdout in llama.cpp's form, progress and notes on stderr.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/eval/divergence.h"
#include "engine/eval/logits_file.h"
#include "engine/eval/perplexity.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/options.h"
#include "main/perplexity_report.h"

namespace loci::cli {
namespace {

struct Flags {
  std::string file, text;
  PerplexityOptions eval;
  int output_type = 0;
  std::string base_file;
  bool compare = false;  // --kl-divergence: read base_file instead of writing it
};

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

// One line after the first chunk, and a bar where the running values do not go to the terminal themselves.
class ChunkProgress {
 public:
  ChunkProgress() {
    if (isatty(STDOUT_FILENO) == 0) bar_.emplace("scoring");
  }
  void done(int64_t n_done, int64_t n_chunks) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    const double per_chunk = elapsed / static_cast<double>(n_done);
    const std::string left = time_left(per_chunk * static_cast<double>(n_chunks - n_done));
    if (n_done == 1) log_info("perplexity: ", per_chunk, " s per chunk, ", left);
    if (bar_) bar_->update(static_cast<double>(n_done), static_cast<double>(n_chunks), left);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  std::optional<ProgressBar> bar_;
};

void print_running(const Flags& flags, int64_t chunk, double ppl) {
  if (flags.output_type == 0) {
    std::printf("[%lld]%.4f,", static_cast<long long>(chunk + 1), ppl);
  } else {
    const int64_t step = flags.eval.stride > 0 ? flags.eval.stride : flags.eval.n_ctx;
    std::printf("%8lld  %.4f\n", static_cast<long long>(chunk * step), ppl);
  }
  std::fflush(stdout);
}

int32_t leading_bos(const Engine& engine) {
  const SpecialTokens& special = engine.tokenizer().special();
  return special.add_bos ? special.bos : -1;
}

void score_text(Engine& engine, const std::string& text, const Flags& flags) {
  const std::vector<int32_t> tokens = engine.tokenizer().encode(text, true, true);
  const size_t n_chunks = perplexity_windows(tokens, leading_bos(engine), flags.eval).size();
  std::printf("perplexity: calculating perplexity over %zu chunks, n_ctx=%lld\n", n_chunks,
              static_cast<long long>(flags.eval.n_ctx));
  std::fflush(stdout);
  std::unique_ptr<LogitsWriter> writer;
  if (!flags.base_file.empty()) {
    LogitsFileHeader header;
    header.n_ctx = flags.eval.n_ctx;
    header.n_vocab = engine.tokenizer().vocab_size();
    header.n_chunks = static_cast<int64_t>(n_chunks);
    header.tokens.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(n_chunks) * flags.eval.n_ctx);
    writer = std::make_unique<LogitsWriter>(flags.base_file, header);
  }
  ChunkProgress progress;
  const PerplexityResult result = perplexity(
      engine, tokens, flags.eval,
      [&](int64_t i, int64_t n, double ppl) {
        progress.done(i + 1, n);
        print_running(flags, i, ppl);
      },
      [&](std::span<const float> logits) {
        if (writer) writer->add(logits);
      });
  if (writer) writer->finish();
  std::printf("%sFinal estimate: PPL = %.4f +/- %.5f\n", flags.output_type == 0 ? "\n" : "", result.ppl,
              result.uncertainty);
}

void compare_with_base(Engine& engine, LogitsReader& reader, const Flags& flags) {
  const LogitsFileHeader& header = reader.header();
  if (header.n_vocab != engine.tokenizer().vocab_size()) {
    fail(ErrorKind::kInvalidInput, flags.base_file, ": made with a vocabulary of ", header.n_vocab,
         " tokens, this model has ", engine.tokenizer().vocab_size());
  }
  const int64_t n_chunks = flags.eval.n_chunks < 0 ? header.n_chunks : std::min(flags.eval.n_chunks, header.n_chunks);
  const int32_t bos = leading_bos(engine);
  Divergence divergence;
  ChunkProgress progress;
  print_divergence_header();
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
    const auto begin = header.tokens.begin() + chunk * header.n_ctx;
    std::vector<int32_t> tokens(begin, begin + header.n_ctx);
    if (bos >= 0) tokens[0] = bos;
    engine.evaluate(tokens, header.n_ctx / 2, 0, [&](int64_t row, std::span<const float> logits) {
      if (row + 1 >= header.n_ctx) return;
      if (std::isnan(log_sum_exp(logits))) {
        fail(ErrorKind::kInternal, "chunk ", chunk + 1, ": the model computed NaN logits at position ", row);
      }
      divergence.add(reader.next(), logits, tokens[static_cast<size_t>(row) + 1]);
    });
    progress.done(chunk + 1, n_chunks);
    print_divergence_line(chunk + 1, divergence);
  }
  if (divergence.count() > 0) print_divergence_report(divergence);
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
  app->add_option("--kl-divergence-base,--save-all-logits", flags.base_file,
                  "file for the distributions: written, or with --kl-divergence read and compared with")
      ->type_name("FILE");
  app->add_flag("--kl-divergence", flags.compare, "compare with the distributions in --kl-divergence-base");
  if (!parse(*app, args)) return 0;
  config.model_path = resolve_model(config.model_path);

  if (flags.compare) {
    if (flags.base_file.empty()) fail(ErrorKind::kInvalidInput, "--kl-divergence needs --kl-divergence-base FILE");
    LogitsReader reader(flags.base_file);
    config.n_ctx = reader.header().n_ctx;
    const std::unique_ptr<Engine> engine = load(config);
    compare_with_base(*engine, reader, flags);
    return 0;
  }
  if (flags.file.empty() == flags.text.empty()) {
    fail(ErrorKind::kInvalidInput, "no text: give it with -f FILE (- for stdin) or with -p TEXT");
  }
  const std::string text = flags.file.empty() ? flags.text : read_text(flags.file);
  if (config.n_ctx == 0)
    fail(ErrorKind::kInvalidInput, "-c: expected the length of a chunk, at least 4 tokens, found 0");
  flags.eval.n_ctx = config.n_ctx;
  if (flags.eval.stride > 0) {
    if (!flags.base_file.empty()) fail(ErrorKind::kInvalidInput, "--kl-divergence-base does not go with --ppl-stride");
    ++config.n_ctx;  // a BOS in front of the window
  }
  const std::unique_ptr<Engine> engine = load(config);
  score_text(*engine, text, flags);
  return 0;
}

}  // namespace loci::cli
