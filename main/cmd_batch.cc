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
#include "server/json.h"
#include "server/tools/dialect.h"

#ifndef LOCI_VERSION
#define LOCI_VERSION "0.0.0"
#endif

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
  app.add_option("-n,--predict,--n-predict", options.n_predict,
                 "most tokens of an answer that asks for no limit; -1: none")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->group(kGroup)
      ->type_name("N");
  app.add_option("-r,--reverse-prompt", options.stops, "stop text for requests without 'stop' (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup)
      ->type_name("S");
  add_request_timeout_option(app, options.timeout_ms);
  app.add_option("--tool-dialect", options.dialect, "how the model writes tool calls; auto (default): as its template")
      ->group(kGroup)
      ->type_name("NAME");
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

// The dialect of this name, or that of the template. Throws Error that lists the names.
const server::Dialect* dialect_for(const std::string& name, const ChatTemplate* chat_template) {
  if (name == "auto") return chat_template == nullptr ? nullptr : server::dialect_of(*chat_template);
  const server::Dialect* dialect = server::find_dialect(name);
  if (dialect != nullptr) return dialect;
  std::string names = "auto";
  for (const std::string& known : server::dialect_names()) names += ", " + known;
  fail(ErrorKind::kInvalidInput, "--tool-dialect: expected one of ", names, ", found '", name, "'");
}

// "loci-VERSION-MODEL-SETTINGS": whatever an answer depends on, but for its own line.
std::string fingerprint_text(const Engine& engine, const ChatFormat& format, const ChatOptions& chat,
                             const BatchSettings& settings) {
  const EngineConfig& config = engine.config();
  const std::string model = stable_id({str(engine.info().fingerprint, ' ', static_cast<int>(config.kv.k_format), ' ',
                                           static_cast<int>(config.kv.v_format), ' ', config.precise)});
  const server::RequestDefaults& defaults = settings.defaults;
  std::string all = str(defaults.n_ctx, '\n', defaults.max_tokens, '\n', defaults.separate_reasoning,
                        settings.text_is_chat, '\n', chat.reasoning ? (*chat.reasoning ? 1 : 0) : -1, '\n');
  for (const auto& [name, value] : sampling_values(defaults.sampling)) all += name + "=" + value + "\n";
  for (const auto& [token, bias] : defaults.sampling.logit_bias) all += str(token, ':', bias, '\n');
  if (defaults.dialect != nullptr) all += str("dialect ", defaults.dialect->name, '\n');
  if (defaults.form) all += defaults.form->to_ebnf(false);
  std::string texts;
  for (const std::string& breaker : defaults.sampling.dry_sequence_breakers) texts += stable_id({breaker});
  for (const std::string& stop : defaults.stops) texts += stable_id({stop});
  const std::string rest =
      stable_id({all, texts, format.raw() ? "" : format.chat_template()->source(), chat.template_kwargs,
                 settings.system.value_or(""), settings.system ? "system" : ""});
  return "loci-" LOCI_VERSION "-" + model.substr(0, 8) + "-" + rest.substr(0, 8);
}

std::string model_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  const size_t dot = name.rfind(".gguf");
  if (dot != std::string::npos && dot + 5 == name.size() && dot > 0) name.resize(dot);
  return name;
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
  server::RequestDefaults& defaults = settings.defaults;
  defaults.tokenizer = &engine->tokenizer();
  defaults.chat_template = format.chat_template();
  defaults.dialect = dialect_for(options.dialect, format.chat_template());
  defaults.n_ctx = std::min(engine->info().n_ctx, engine->info().n_kv_tokens);
  defaults.sampling = sampling.params;
  defaults.max_tokens = options.n_predict;
  defaults.stops = options.stops;
  defaults.template_kwargs = server::to_variables(chat.template_kwargs, "--chat-template-kwargs");
  defaults.thinking = chat.reasoning;
  defaults.separate_reasoning = chat.separate_reasoning;
  defaults.timeout_ms = options.timeout_ms;
  defaults.speculation = speculation.params;
  defaults.has_draft_model = !config.draft_model_path.empty();
  defaults.constraints = &engine->constraints();
  defaults.form = form;
  settings.format = options.format == "jsonl"  ? BatchFormat::kJsonl
                    : options.format == "text" ? BatchFormat::kText
                                               : BatchFormat::kAuto;
  settings.text_is_chat = !format.raw();
  settings.system = chat.system;
  settings.model_name = model_name(config.model_path);
  settings.n_parallel = config.max_sequences;
  settings.fingerprint = fingerprint_text(*engine, format, chat, settings);

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
