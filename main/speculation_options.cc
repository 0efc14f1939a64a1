// Flags of speculation, with llama.cpp's names and the older ones that scripts still use.
#include "engine/spec/mode_names.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "main/cli.h"
#include "main/options.h"

namespace loci::cli {
namespace {

constexpr const char* kGroup = "Speculation";

SpeculationMode parse_mode(const std::string& list) {
  const NamedSpeculation found = read_speculation_names(list);
  if (found.unknown) {
    fail(ErrorKind::kInvalidInput, "invalid argument: --spec-type: expected none, ngram, draft or auto, found '",
         *found.unknown, "'");
  }
  if (found.not_done) {
    fail(ErrorKind::kUnsupported, "not supported by this build: --spec-type ", *found.not_done,
         " (it drafts with n-grams or a whole model)");
  }
  if (found.taken_as_ngram) {
    log_info("note: --spec-type ", *found.taken_as_ngram, ": there is one kind of n-gram lookup here, 'ngram'");
  }
  return found.mode;
}

struct Flag {
  const char* name;
  bool given;
};

// Those that are given, as "--draft-tree, --spec-shared".
std::string given_flags(std::initializer_list<Flag> flags) {
  std::string names;
  for (const Flag& flag : flags) {
    if (flag.given) names += str(names.empty() ? "" : ", ", flag.name);
  }
  return names;
}

// What of the flags that change a model's metadata is given, as "--override-kv, --rope-freq-base".
std::string metadata_flags(const EngineConfig& config) {
  const RopeOverrides& rope = config.rope;
  const RopeOverrides none;
  return given_flags({
      {"--override-kv", !config.override_kv.empty()},
      {"--rope-scaling", rope.scaling_type != none.scaling_type},
      {"--rope-scale", rope.scale != none.scale},
      {"--rope-freq-base", rope.freq_base != none.freq_base},
      {"--rope-freq-scale", rope.freq_scale != none.freq_scale},
      {"--yarn-...", rope.yarn_orig_ctx != none.yarn_orig_ctx || rope.yarn_ext_factor != none.yarn_ext_factor ||
                         rope.yarn_attn_factor != none.yarn_attn_factor || rope.yarn_beta_slow != none.yarn_beta_slow ||
                         rope.yarn_beta_fast != none.yarn_beta_fast},
  });
}

// Flags that steer drafts, and differ from their defaults, where nothing drafts or no model does.
std::string idle_flags(const EngineConfig& config, const Speculation& params) {
  const Speculation none;
  const bool no_model = config.draft_model_path.empty(), nothing = params.mode == SpeculationMode::kNone;
  return given_flags({
      {"--spec-draft-n-max", nothing && params.max_tokens != none.max_tokens},
      {"--spec-draft-n-min", nothing && params.min_tokens != none.min_tokens},
      {"--spec-draft-p-min", (nothing || no_model) && params.p_min != none.p_min},
      {"--spec-draft-vocab", no_model && config.draft_vocab != EngineConfig().draft_vocab},
      {"--draft-tree", nothing && params.width != none.width},
      {"--no-spec-adaptive", nothing && params.adaptive != none.adaptive},
      {"--spec-shared", nothing && params.shared_ngrams != none.shared_ngrams},
  });
}

}  // namespace

void add_speculation_options(CLI::App& app, EngineConfig& config, SpeculationOptions& options) {
  Speculation& params = options.params;
  app.add_option_function<std::string>(
         "--spec-type,--spec", [&options](const std::string& list) { options.mode = parse_mode(list); },
         "draft tokens ahead: none, ngram, draft, auto (the most promising); default none, auto with -md")
      ->group(kGroup)
      ->type_name("LIST");
  app.add_flag_callback(
         "--spec-default", [&options] { options.mode = SpeculationMode::kAuto; }, "as --spec-type auto")
      ->group(kGroup);
  app.add_option("--md,--model-draft,--spec-draft-model", config.draft_model_path,
                 "a smaller model with the same vocabulary that drafts: GGUF file or alias")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_option("--spec-draft-n-max,--draft-max,--draft-n,--draft", params.max_tokens,
                 "most drafts of one step; fewer are made where more do not pay")
      ->check(CLI::Range(0, kMaxDrafts))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--spec-draft-n-min,--draft-min,--draft-n-min", params.min_tokens, "fewer drafts are not tried")
      ->check(CLI::Range(0, kMaxDrafts))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--spec-draft-p-min,--draft-p-min", params.p_min,
                 "the draft model stops at a draft that it finds less probable")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kGroup)
      ->type_name("P")
      ->capture_default_str();
  app.add_option("--spec-draft-vocab", config.draft_vocab,
                 "the draft model drafts the first N token ids, the frequent ones, and those of the text; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--draft-tree", params.width, "alternatives at each place; more than 1 makes a tree of drafts")
      ->check(CLI::Range(1, kMaxDraftWidth))
      ->group(kGroup)
      ->type_name("W")
      ->capture_default_str();
  app.add_flag("--spec-adaptive,!--no-spec-adaptive", params.adaptive,
               "make only as many drafts as pay (default on); off: always the most")
      ->group(kGroup);
  app.add_flag("--spec-shared", params.shared_ngrams, "look n-grams up in earlier conversations of this run too")
      ->group(kGroup);
}

void finish_speculation(EngineConfig& config, SpeculationOptions& options) {
  const bool has_model = !config.draft_model_path.empty();
  options.params.mode = options.mode.value_or(has_model ? SpeculationMode::kAuto : SpeculationMode::kNone);
  if (options.params.mode == SpeculationMode::kDraft && !has_model) {
    fail(ErrorKind::kInvalidInput, "--spec-type draft: expected a draft model (-md FILE), found none");
  }
  if (has_model) {
    config.draft_model_path = resolve_model(config.draft_model_path);
    if (const std::string flags = metadata_flags(config); !flags.empty()) {
      log_info("note: ", flags, ": for the model alone; the draft model is taken as its file says");
    }
  }
  if (const std::string flags = idle_flags(config, options.params); !flags.empty()) {
    log_info("note: ", flags, ": without effect, ",
             options.params.mode == SpeculationMode::kNone ? "nothing is drafted (--spec-type, -md)"
                                                           : "no model drafts (-md)");
  }
  if (options.params.min_tokens > options.params.max_tokens) {
    fail(ErrorKind::kInvalidInput, "--spec-draft-n-min: expected at most ", options.params.max_tokens,
         " (--spec-draft-n-max), found ", options.params.min_tokens);
  }
}

}  // namespace loci::cli
