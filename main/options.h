// Flag groups that several commands share, each filling one plain struct: EngineConfig, SamplingOptions, ChatOptions,
// PromptOptions, SpeculationOptions, ConstraintOptions. A command calls the add_... functions that it wants before
// parse().
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/constraint/grammar.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "gguf/metadata.h"

namespace CLI {
class App;
}
namespace loci::cli {

// -m -c -b -ub -t -tb (and where threads run) -ctk -ctv --precise --mlock --no-mmap -lm --rope-... --yarn-...
// --override-kv, and the device flags (-ngl, -fa, ...) in so far as they ask for what happens anyway. After parse(),
// config.model_path is as given; the command passes it through resolve_model().
void add_model_options(CLI::App& app, EngineConfig& config);

// -C -Cr --cpu-strict --prio --poll --numa. Which of the CPUs there are is found out when the engine is made.
void add_placement_options(CLI::App& app, ThreadPlacement& placement);
// -Cb -Crb --cpu-strict-batch --prio-batch --poll-batch.
void add_batch_placement_options(CLI::App& app, BatchPlacement& placement);

// -m alone, for commands that read a file and load no model.
void add_model_path_option(CLI::App& app, std::string& path);

struct SamplingOptions {
  SamplingParams params;
  std::set<std::string> given;  // names ("temp", "top-k") that the user set: they win over the model file's values
};

// --temp --top-k ... --seed --samplers --logit-bias --ignore-eos (conventions of llama.cpp).
void add_sampling_options(CLI::App& app, SamplingOptions& options);

// Takes the values that the model's author recommends (general.sampling.*) where the user gave none. Returns what
// was taken, as "temp 0.6, top-k 20"; empty when nothing was. Values out of range are left, with a warning.
std::string apply_recommended(SamplingOptions& options, const gguf::Metadata& metadata);

// Name and value of the numeric settings, for /show and /save: {"temp", "0.8"}. Values parse back exactly.
std::vector<std::pair<std::string, std::string>> sampling_values(const SamplingParams& params);
// Sets one by its flag name without dashes. Throws Error naming it; `options` is then unchanged.
void set_sampling_value(SamplingOptions& options, const std::string& name, const std::string& value);

// Where a prompt comes from and how long the answer may be.
struct PromptOptions {
  std::optional<std::string> text;  // -p, escapes turned into characters unless --no-escape
  std::optional<std::string> file;  // -f
  std::optional<std::string> binary_file;
  std::vector<std::string> words;  // positional
  bool escape = true;
  int64_t n_predict = -1;          // -1: until the model ends or the context is full
  std::vector<std::string> stops;  // -r
  bool show_special = false;
  bool verbose_prompt = false;
  std::optional<bool> display_prompt;
  std::optional<bool> show_timings;
  int64_t timeout_ms = -1;  // --request-timeout; -1: none
  std::string cache_file;   // --prompt-cache
  bool cache_all = false;
  bool cache_read_only = false;
};
void add_prompt_options(CLI::App& app, PromptOptions& options, bool with_words);

// How messages become prompt text.
struct ChatOptions {
  std::optional<bool> conversation;          // -cnv / -no-cnv; unset: when the model has a template
  std::optional<std::string> system;         // -sys or -sysf
  std::optional<std::string> chat_template;  // name or Jinja source
  std::string template_kwargs;               // JSON object
  std::optional<bool> reasoning;             // -rea on|off: the template's enable_thinking
  bool separate_reasoning = true;            // --reasoning-format none: thinking stays in the answer
  bool single_turn = false;                  // -st
};
void add_chat_options(CLI::App& app, ChatOptions& options);
// Those among them that concern the template: what a server has use for.
void add_template_options(CLI::App& app, ChatOptions& options);

struct SpeculationOptions {
  Speculation params;
  std::optional<SpeculationMode> mode;  // as given
};
// --spec-type -md --spec-draft-n-max ... --draft-tree.
void add_speculation_options(CLI::App& app, EngineConfig& config, SpeculationOptions& options);
// After parse(): settles the mode and finds the draft model's file. Throws Error for what does not go together.
void finish_speculation(EngineConfig& config, SpeculationOptions& options);

struct ConstraintOptions {
  std::optional<std::string> grammar, grammar_file, schema, schema_file;
};
// --grammar --grammar-file -j --json-schema -jf --json-schema-file.
void add_constraint_options(CLI::App& app, ConstraintOptions& options);
// After parse(): the grammar that they stand for, if any. Throws Error naming the flag.
std::optional<Grammar> read_constraint(const ConstraintOptions& options);

// --max-stall-ms --priority-ageing-ms --preemption-mode --swap-space.
void add_scheduling_options(CLI::App& app, EngineConfig& config);
// After parse(): throws Error for what does not go together.
void check_scheduling(const EngineConfig& config);

// --request-timeout, in seconds on the command line. -1: none.
void add_request_timeout_option(CLI::App& app, int64_t& timeout_ms);

// "512M", "2GiB", "1.5g": powers of 1024; a bare number is bytes. Throws Error naming the flag.
int64_t parse_size(const std::string& flag, const std::string& text);

// --color on|off|auto.
void add_color_option(CLI::App& app, std::optional<bool>& color);

}  // namespace loci::cli
