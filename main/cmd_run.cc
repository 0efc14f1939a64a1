// loci run: one prompt, one answer on stdout, nothing else there.
#include <optional>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/answer.h"
#include "main/chat_format.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/interrupt.h"
#include "main/options.h"
#include "main/prompt_source.h"

namespace loci::cli {
namespace {

int exit_code(const Answer& answer) { return answer.interrupted ? 130 : answer.timed_out ? 1 : 0; }

// Evaluates the prompt and generates nothing: what --prompt-cache without -all keeps. Exit code: 0 when it was all
// evaluated.
int evaluate_only(Engine& engine, const AnswerRequest& request, Console& console) {
  AnswerRequest warm = request;
  warm.max_tokens = 0;
  return exit_code(answer(engine, warm, console));
}

}  // namespace

int cmd_run(const std::vector<std::string>& args) {
  const auto app =
      make_app("run", "Answers one prompt and exits. The answer goes to stdout, everything else to stderr.");
  EngineConfig config;
  PromptOptions prompt_options;
  ChatOptions chat;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  ConstraintOptions constraint;
  std::optional<bool> color;
  add_prompt_options(*app, prompt_options, true);
  add_model_options(*app, config);
  add_chat_options(*app, chat);
  add_sampling_options(*app, sampling);
  add_speculation_options(*app, config, speculation);
  add_constraint_options(*app, constraint);
  add_color_option(*app, color);
  if (!parse(*app, args)) return 0;
  if (const std::string wrong = check(sampling.params, INT32_MAX); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  const std::optional<Grammar> form = read_constraint(constraint);
  interrupt::install();
  Console console(color);
  const std::optional<std::string> text = read_prompt(prompt_options, true);
  if (!text) {
    fail(ErrorKind::kInvalidInput,
         "no prompt: give it as words, with -p or -f, or through a pipe; 'loci chat' holds a conversation");
  }
  config.model_path = resolve_model(config.model_path);
  finish_speculation(config, speculation);
  const std::unique_ptr<Engine> engine = load_with_progress(config);
  const ChatFormat format(*engine, chat);
  if (const std::string taken = apply_recommended(sampling, engine->metadata()); !taken.empty()) {
    log_info("note: sampling as the model file recommends: ", taken);
  }

  std::vector<ChatMessage> messages;
  if (chat.system) messages.push_back({"system", *chat.system, ""});
  messages.push_back({"user", *text, ""});
  AnswerRequest request;
  request.prompt = format.prompt(messages, chat.reasoning);
  request.sampling = sampling.params;
  request.max_tokens = prompt_options.n_predict;
  request.timeout_ms = prompt_options.timeout_ms;
  request.stops = prompt_options.stops;
  request.show_special = prompt_options.show_special;
  request.speculation = speculation.params;
  request.split_reasoning = !format.raw() && chat.separate_reasoning;
  if (form) request.constraint = format.compile(*form, *engine, request.prompt);
  if (prompt_options.verbose_prompt) {
    log_line(LogLevel::kOutput, describe_tokens(engine->tokenizer(), request.prompt.tokens));
  }

  const std::string& cache_file = prompt_options.cache_file;
  if (!cache_file.empty()) load_prompt_cache(*engine, cache_file);
  const bool save = !cache_file.empty() && !prompt_options.cache_read_only;
  if (save && !prompt_options.cache_all) {
    if (const int code = evaluate_only(*engine, request, console); code != 0) return code;
    engine->save_cache(cache_file);
  }
  // Raw completion on a terminal shows the text as a whole; a pipe gets the answer alone unless asked.
  if (prompt_options.display_prompt.value_or(format.raw() && console.stdout_is_terminal())) console.answer(*text);
  const Answer result = answer(*engine, request, console);
  // A raw completion into a pipe stays exact to the byte.
  if (!format.raw() || console.stdout_is_terminal()) console.end_line();
  if (save && prompt_options.cache_all) engine->save_cache(cache_file);

  const bool timings =
      prompt_options.show_timings.value_or(console.stdout_is_terminal() && console.stderr_is_terminal());
  if (timings) {
    console.note(
        "\n" + timings_text(result.stats, engine->info().n_ctx) +
            (sampling.params.seed < 0 && sampling.params.temperature > 0 ? " seed " + std::to_string(result.stats.seed)
                                                                         : ""),
        Style::kDim);
  }
  return exit_code(result);
}

}  // namespace loci::cli
