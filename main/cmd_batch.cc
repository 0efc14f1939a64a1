// loci batch: a file of requests in, a file of results out; goes on where an earlier run ended.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/answer.h"
#include "main/batch_run.h"
#include "main/chat_format.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/interrupt.h"
#include "main/options.h"
#include "main/request_defaults.h"

namespace loci::cli {
namespace {

constexpr int64_t kMaxCountedBytes = int64_t{256} << 20;  // larger inputs are estimated from the bytes read

struct BatchOptions {
  std::optional<std::string> input;
  BatchOutputOptions output;
  std::vector<std::string> files;  // positional: input, output
  std::string format = "auto";
  int64_t n_predict = -1;
  int64_t timeout_ms = -1;
  std::vector<std::string> stops;
  std::string dialect = "auto";
};

void add_batch_options(CLI::App& app, BatchOptions& options, EngineConfig& config) {
  constexpr const char* kGroup = "Batch";
  app.add_option("-i,--input", options.input, "requests, one a line; - for stdin")->group(kGroup)->type_name("FILE");
  app.add_option("-o,--output", options.output.path, "results, one a line, appended to; - (default) for stdout")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_option("files", options.files, "input and output, in place of -i and -o");
  app.add_option("--input-format", options.format,
                 "jsonl, text, or auto (default): jsonl when the first line begins with {")
      ->check(CLI::IsMember({"auto", "jsonl", "text"}))
      ->group(kGroup)
      ->type_name("auto|jsonl|text");
  app.add_option("--np,--parallel", config.max_sequences, "requests that run at once")
      ->check(CLI::Range(1, 4096))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  add_answer_end_options(app, options.n_predict, options.stops, kGroup);
  add_request_timeout_option(app, options.timeout_ms);
  add_tool_dialect_option(app, options.dialect);
  app.add_flag("--retry-failed", options.output.retry_failed, "run lines again that failed in an earlier run")
      ->group(kGroup);
  app.add_flag("--overwrite", options.output.overwrite, "begin anew, whatever the output holds")->group(kGroup);
  app.add_flag("--allow-mixed", options.output.allow_mixed, "go on with an output of another model or other settings")
      ->group(kGroup);
}

void settle_files(BatchOptions& options) {
  for (size_t i = 0; i < options.files.size(); ++i) {
    if (i > 1)
      fail(ErrorKind::kInvalidInput, "expected an input and an output, found '", options.files[i], "' as well");
    const bool given = i == 0 ? options.input.has_value() : !options.output.path.empty();
    if (given) {
      fail(ErrorKind::kInvalidInput, "'", options.files[i], "' and ", i == 0 ? "-i" : "-o", " both name the ",
           i == 0 ? "input" : "output");
    }
    if (i == 0)
      options.input = options.files[i];
    else
      options.output.path = options.files[i];
  }
  if (!options.input) {
    if (isatty(STDIN_FILENO) != 0) fail(ErrorKind::kInvalidInput, "no input: give a file with -i, or use a pipe");
    options.input = "-";
  }
  if (options.output.path.empty()) options.output.path = "-";
  struct stat in {
  }, out{};
  const bool in_known = *options.input == "-" ? fstat(STDIN_FILENO, &in) == 0 : stat(options.input->c_str(), &in) == 0;
  if (options.output.path != "-" && in_known && stat(options.output.path.c_str(), &out) == 0 &&
      in.st_dev == out.st_dev && in.st_ino == out.st_ino && S_ISREG(in.st_mode)) {
    fail(ErrorKind::kInvalidInput, options.output.path, ": is the input as well; choose another -o");
  }
}

void tell_output(const BatchOutput& output, const BatchLedger& ledger, const std::string& path) {
  if (output.n_torn_bytes() > 0) {
    log_info("note: ", path, ": a line of ", output.n_torn_bytes(), " bytes at the end was incomplete and is cut off");
  }
  if (ledger.n_done() + ledger.n_failed() > 0) {
    log_info("note: ", path, ": holds ", ledger.n_done(), " answers and ", ledger.n_failed(),
             " failures of earlier runs; goes on from there");
  }
  if (ledger.n_repeated() > 0) {
    log_warn(path, ": ", ledger.n_repeated(), " results repeat the custom_id of another; they are left as they are");
  }
  if (output.n_mixed() > 0) {
    log_warn(path, ": ", output.n_mixed(), " answers were made with another model or other settings (--allow-mixed)");
  }
}

}  // namespace

int cmd_batch(const std::vector<std::string>& args) {
  const auto app =
      make_app("batch",
               "Runs a file of requests (OpenAI batch lines, {\"prompt\": ...} lines, or plain prompts) and "
               "writes a line for each. The same command again goes on where it ended.");
  BatchOptions options;
  EngineConfig config;
  config.max_sequences = 8;
  ChatOptions chat;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  ConstraintOptions constraint;
  add_batch_options(*app, options, config);
  add_model_options(*app, config);
  add_scheduling_options(*app, config);
  add_speculation_options(*app, config, speculation);
  add_constraint_options(*app, constraint);
  add_chat_options(*app, chat);
  add_sampling_options(*app, sampling);
  if (!parse(*app, args)) return 0;
  if (const std::string wrong = check(sampling.params, INT32_MAX); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  check_scheduling(config);
  settle_files(options);
  interrupt::install();
  BatchSettings settings;
  LineReader reader(*options.input);
  if (*options.input != "-" && reader.is_file() && reader.n_total_bytes() <= kMaxCountedBytes) {
    settings.n_total_lines = count_lines(*options.input);
  }

  config.model_path = resolve_model(config.model_path);
  finish_speculation(config, speculation);
  const std::optional<Grammar> form = read_constraint(constraint);
  const std::unique_ptr<Engine> engine = load_with_progress(config);
  const ChatFormat format(*engine, chat);
  if (const std::string taken = apply_recommended(sampling, engine->metadata()); !taken.empty()) {
    log_info("note: sampling as the model file recommends: ", taken);
  }
  settings.defaults = request_defaults(*engine, format, chat, sampling, speculation, options.dialect);
  settings.defaults.form = form;
  settings.defaults.max_tokens = options.n_predict;
  settings.defaults.stops = options.stops;
  settings.defaults.timeout_ms = options.timeout_ms;
  settings.format = options.format == "jsonl"  ? BatchFormat::kJsonl
                    : options.format == "text" ? BatchFormat::kText
                                               : BatchFormat::kAuto;
  settings.text_is_chat = !format.raw();
  settings.system = chat.system;
  settings.model_name = model_name(config.model_path);
  settings.n_parallel = config.max_sequences;
  settings.fingerprint = fingerprint_text(*engine, format, chat, settings.defaults,
                                          chat.system ? std::vector{*chat.system} : std::vector<std::string>());

  BatchLedger ledger;
  options.output.fingerprint = settings.fingerprint;
  BatchOutput output(options.output, ledger);
  tell_output(output, ledger, options.output.path);

  BatchRunner runner(*engine, reader, ledger, output, settings);
  bool interrupted = false;
  {
    const interrupt::Answering answering(*engine);
    runner.run(answering);
    interrupted = answering.interrupted();
  }
  const BatchCounts& counts = runner.counts();
  log_info(batch_summary(counts, runner.elapsed_s(), interrupted));
  const Metrics metrics = engine->metrics();
  const std::string traffic = kv_bytes_text(metrics);
  log_info("K/V: ", kv_waste_text(metrics), "; ", traffic.empty() ? "" : traffic + "; ", "prefixes: ", metrics.n_hits,
           " hits, ", metrics.n_misses, " misses; ", metrics.n_evicted_pages, " pages evicted, ",
           metrics.n_preempted_recompute + metrics.n_preempted_swap, " preemptions");
  log_debug(summary(metrics));
  if (counts.n_changed > 0) {
    log_warn(counts.n_changed,
             " lines have changed since they were run; their old results stay (--overwrite begins anew)");
  }
  if (interrupted) {
    if (output.resumable()) log_info("the same command goes on from here");
    return 130;
  }
  return counts.n_failed + counts.n_skipped_failed > 0 ? 1 : 0;
}

}  // namespace loci::cli
