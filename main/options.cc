#include "main/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/cli.h"

namespace loci::cli {
namespace {

constexpr const char* kModelGroup = "Model and context";
constexpr const char* kDeviceGroup = "Device";
constexpr const char* kPromptGroup = "Prompt and answer";
constexpr const char* kChatGroup = "Chat";
constexpr const char* kRopeGroup = "Positions";
constexpr int kMaxInt = std::numeric_limits<int>::max();

KvFormat parse_kv_format(const std::string& flag, const std::string& text) {
  if (const std::optional<KvFormat> format = kv_format_from_name(text)) return *format;
  for (const char* known : {"q5_1", "q5_0", "q4_1", "iq4_nl"}) {
    if (text == known) {
      fail(ErrorKind::kUnsupported, "not supported by this build: ", flag, " ", text, " (the cache holds ",
           kv_format_names(), ")");
    }
  }
  fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected one of ", kv_format_names(), ", found '", text,
       "'");
}

// "a=int:1,b=str:x,y" -> {"a", "int:1"}, {"b", "str:x,y"}: a comma separates only where a new KEY=TYPE: follows.
void parse_overrides(const std::string& text, std::vector<std::pair<std::string, std::string>>& out) {
  static const std::regex kStart("(^|,)([^,=]+)=(int|float|bool|str):");
  const std::sregex_iterator first(text.begin(), text.end(), kStart), none;
  if (first == none || first->position() != 0) {
    fail(ErrorKind::kInvalidInput, "invalid argument: --override-kv: expected KEY=int|float|bool|str:VALUE, found '",
         text, "'");
  }
  for (std::sregex_iterator it = first; it != none; ++it) {
    const std::sregex_iterator next = std::next(it);
    const size_t value_at = static_cast<size_t>(it->position() + it->length());
    const size_t value_end = next == none ? text.size() : static_cast<size_t>(next->position());
    out.emplace_back((*it)[2].str(), (*it)[3].str() + ":" + text.substr(value_at, value_end - value_at));
  }
}

// A flag that names what is done anyway.
void accept(CLI::App& app, const char* names, const char* help, const char* group) {
  app.add_flag_callback(
         names, [] {}, help)
      ->group(group);
}

// Flags that ask for what this build does anyway, and refusals of what it does not do.
void add_device_options(CLI::App& app) {
  app.add_option_function<std::string>(
         "--ngl,--gpu-layers,--n-gpu-layers",
         [](const std::string& value) {
           if (value == "0" || value == "auto") return;
           fail(ErrorKind::kUnsupported, "not supported by this build: -ngl ", value, " (it has no GPU backend)");
         },
         "layers on the GPU: 0 or auto, as this build has none")
      ->group(kDeviceGroup)
      ->type_name("N|auto");
  app.add_option_function<std::string>(
         "--dev,--device",
         [](const std::string& value) {
           if (value == "none") return;
           fail(ErrorKind::kUnsupported, "not supported by this build: -dev ", value, " (it has no GPU backend)");
         },
         "none: the CPU")
      ->group(kDeviceGroup)
      ->type_name("none");
  app.add_option_function<std::string>(
         "--fa,--flash-attn",
         [](const std::string& value) {
           if (value == "off" || value == "0" || value == "false" || value == "disabled") {
             log_info("note: -fa off changes nothing: attention is always computed in one pass over the cache");
           } else if (value != "on" && value != "auto" && value != "1" && value != "true" && value != "enabled") {
             fail(ErrorKind::kInvalidInput, "invalid argument: -fa: expected on, off or auto, found '", value, "'");
           }
         },
         "on and auto name what is done anyway")
      ->group(kDeviceGroup)
      ->type_name(kOnOffAuto);
  app.add_option_function<std::string>(
         "--fit",
         [](const std::string& value) {
           if (value == "off") return;
           fail(ErrorKind::kUnsupported, "not supported by this build: -fit ", value,
                " (sizes are taken as given; -c sets the context)");
         },
         "off: sizes are taken as given")
      ->group(kDeviceGroup)
      ->type_name("off");
  accept(app, "--nkvo,--no-kv-offload", "K/V stay in main memory, as always here", kDeviceGroup);
  accept(app, "--no-warmup", "no warm-up run, as always here", kDeviceGroup);
}

void add_rope_options(CLI::App& app, RopeOverrides& rope) {
  app.add_option("--rope-scaling", rope.scaling_type, "none, linear or yarn")
      ->check(CLI::IsMember({"none", "linear", "yarn"}))
      ->type_name("none|linear|yarn")
      ->group(kRopeGroup);
  app.add_option("--rope-scale", rope.scale, "stretch the context by this factor")->group(kRopeGroup);
  app.add_option("--rope-freq-base", rope.freq_base, "base frequency")->group(kRopeGroup);
  app.add_option("--rope-freq-scale", rope.freq_scale, "frequency factor (1 / --rope-scale)")->group(kRopeGroup);
  app.add_option("--yarn-orig-ctx", rope.yarn_orig_ctx, "context the model was trained with")->group(kRopeGroup);
  app.add_option("--yarn-ext-factor", rope.yarn_ext_factor, "mix of interpolation and extrapolation")
      ->group(kRopeGroup);
  app.add_option("--yarn-attn-factor", rope.yarn_attn_factor, "scale of attention scores")->group(kRopeGroup);
  app.add_option("--yarn-beta-slow", rope.yarn_beta_slow, "high correction dimension")->group(kRopeGroup);
  app.add_option("--yarn-beta-fast", rope.yarn_beta_fast, "low correction dimension")->group(kRopeGroup);
}

// A tri-state flag's text to a value.
std::optional<bool> on_off_auto(const std::string& flag, const std::string& value) {
  if (value == "on" || value == "1" || value == "true" || value == "enabled") return true;
  if (value == "off" || value == "0" || value == "false" || value == "disabled") return false;
  if (value == "auto") return std::nullopt;
  fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected on, off or auto, found '", value, "'");
}

}  // namespace

int64_t parse_size(const std::string& flag, const std::string& text) {
  static const std::regex kSize("([0-9]+(\\.[0-9]+)?) ?(([KMGT])(i?B)?|B)?", std::regex::icase);
  std::smatch parts;
  double bytes = 0;
  if (std::regex_match(text, parts, kSize)) {
    bytes = std::strtod(parts[1].str().c_str(), nullptr);
    const std::string unit = parts[4].str();
    if (!unit.empty())
      bytes *= std::pow(1024.0, 1.0 + static_cast<double>(std::string("KMGT").find(std::toupper(unit[0]))));
  }
  if (bytes < 1 || bytes > 0x1p62) {
    fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected a size as 512M or 2GiB, found '", text, "'");
  }
  return static_cast<int64_t>(bytes);
}

void add_model_path_option(CLI::App& app, std::string& path) {
  app.add_option_function<std::string>(
         "-m,--model",
         [&path](const std::string& value) {
           if (value.empty()) {
             fail(ErrorKind::kInvalidInput, "-m: expected the path of a GGUF file or an alias, found an empty string");
           }
           path = value;
         },
         "GGUF file (first part of a split one) or an alias; default smollm2")
      ->group(kModelGroup)
      ->type_name("FILE");
}

void add_model_options(CLI::App& app, EngineConfig& config) {
  add_model_path_option(app, config.model_path);
  app.add_option("-c,--ctx-size", config.n_ctx, "context in tokens; 0: the model's trained length")
      ->check(CLI::Range(int64_t{0}, int64_t{kMaxInt}))
      ->group(kModelGroup)
      ->type_name("N");
  app.add_option("-b,--batch-size", config.n_batch, "most prompt tokens taken at a time")
      ->envname("LLAMA_ARG_BATCH")  // llama.cpp's names for these two, beside the regular ones
      ->check(CLI::Range(1, kMaxInt))
      ->group(kModelGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--ub,--ubatch-size", config.n_ubatch, "most tokens of one forward pass")
      ->envname("LLAMA_ARG_UBATCH")
      ->check(CLI::Range(1, kMaxInt))
      ->group(kModelGroup)
      ->type_name("N")
      ->capture_default_str();
  const auto threads = [](int& field) { return [&field](int value) { field = std::max(value, 0); }; };
  app.add_option_function<int>("-t,--threads", threads(config.n_threads), "threads; 0 or less: physical cores")
      ->check(CLI::Range(-1, 1024))
      ->group(kModelGroup)
      ->type_name("N");
  app.add_option_function<int>("--tb,--threads-batch", threads(config.n_threads_batch),
                               "threads for prompts; 0 or less: as -t")
      ->check(CLI::Range(-1, 1024))
      ->group(kModelGroup)
      ->type_name("N");
  add_placement_options(app, config.placement);
  add_batch_placement_options(app, config.placement_batch);
  // Declared before -ctk and -ctv: CLI11 runs the callbacks in this order, so that those win over --precise.
  app.add_flag_callback(
         "--precise",
         [&config] {
           config.precise = true;
           config.kv.k_format = config.kv.v_format = KvFormat::kF32;
         },
         "compute with f32 activations, and an f32 cache unless -ctk, -ctv say otherwise")
      ->group(kModelGroup);
  app.add_option_function<std::string>(
         "--ctk,--cache-type-k", [&config](const std::string& v) { config.kv.k_format = parse_kv_format("-ctk", v); },
         "type of cached K: f32, f16 (default), bf16, q8_0, q4_0")
      ->group(kModelGroup)
      ->type_name("T");
  app.add_option_function<std::string>(
         "--ctv,--cache-type-v", [&config](const std::string& v) { config.kv.v_format = parse_kv_format("-ctv", v); },
         "type of cached V: f32, f16 (default), bf16, q8_0, q4_0")
      ->group(kModelGroup)
      ->type_name("T");
  app.add_option_function<std::string>(
         "--kv-budget",
         [&config](const std::string& v) { config.kv.budget_bytes = v == "auto" ? 0 : parse_size("--kv-budget", v); },
         "memory for cached K/V, as 512M or 2GiB; auto: a context for each sequence if half of the free memory will do")
      ->group(kModelGroup)
      ->type_name("SIZE");
  app.add_option("--kv-page-size", config.kv.page_size, "tokens of a page of cached K/V, a multiple of 16")
      ->check(CLI::Range(1, 4096))
      ->group(kModelGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--swa-full", config.kv.swa_full,
               "layers with a sliding window keep the K/V of all tokens, not of the window alone")
      ->group(kModelGroup);
  app.add_option_function<std::string>(
         "--lm,--load-mode",
         [&config](const std::string& mode) {
           if (mode == "dio") fail(ErrorKind::kUnsupported, "not supported by this build: -lm dio (direct reads)");
           config.use_mmap = mode != "none" && mode != "mlock";
           config.use_mlock = mode == "mlock" || mode == "mmap+mlock";
         },
         "auto, none, mmap, mlock or mmap+mlock")
      ->check(CLI::IsMember({"auto", "none", "mmap", "mlock", "mmap+mlock", "dio"}))
      ->group(kModelGroup)
      ->type_name("MODE");
  app.add_flag("--mmap,!--no-mmap", config.use_mmap, "map the file (default) or read it into memory")
      ->group(kModelGroup);
  app.add_flag("--mlock", config.use_mlock, "keep the model in memory, out of swap")->group(kModelGroup);
  app.add_option_function<std::vector<std::string>>(
         "--override-kv",
         [&config](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) parse_overrides(text, config.override_kv);
         },
         "KEY=TYPE:VALUE,... replaces metadata of the file; TYPE int, float, bool or str")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kModelGroup)
      ->type_name("KEY=TYPE:VALUE");
  add_rope_options(app, config.rope);
  add_device_options(app);
}

void add_prompt_options(CLI::App& app, PromptOptions& options, bool with_words) {
  // --escape stands first: -p's callback reads it.
  app.add_flag("-e,--escape,!--no-escape", options.escape,
               "turn \\n \\t \\r \\\" \\' \\\\ of -p into characters (default on)")
      ->group(kPromptGroup);
  app.add_option_function<std::string>(
         "-p,--prompt", [&options](const std::string& text) { options.text = options.escape ? unescape(text) : text; },
         "the prompt")
      ->group(kPromptGroup)
      ->type_name("TEXT");
  app.add_option("-f,--file", options.file, "prompt from a file, less one trailing newline; - for stdin")
      ->group(kPromptGroup)
      ->type_name("FILE");
  app.add_option("--bf,--binary-file", options.binary_file, "prompt from a file, every byte of it")
      ->group(kPromptGroup)
      ->type_name("FILE");
  if (with_words) app.add_option("words", options.words, "the prompt, in plain words");
  app.add_option("-n,--predict,--n-predict", options.n_predict, "most tokens to generate; -1: no limit")
      ->check(CLI::Range(int64_t{-1}, int64_t{kMaxInt}))
      ->group(kPromptGroup)
      ->type_name("N");
  app.add_option("-r,--reverse-prompt", options.stops, "stop where the answer comes to this text (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kPromptGroup)
      ->type_name("S");
  app.add_flag("--sp,--special", options.show_special, "show control tokens in the answer")->group(kPromptGroup);
  app.add_flag("--verbose-prompt", options.verbose_prompt, "print the prompt's token ids to stderr")
      ->group(kPromptGroup);
  app.add_flag_callback(
         "--no-display-prompt", [&options] { options.display_prompt = false; }, "do not repeat the prompt")
      ->group(kPromptGroup);
  app.add_flag_callback(
         "--display-prompt", [&options] { options.display_prompt = true; }, "repeat the prompt before the answer")
      ->group(kPromptGroup);
  const auto timings = [&options](bool on) { return [&options, on] { options.show_timings = on; }; };
  app.add_flag_callback("--show-timings,--perf", timings(true), "print speeds to stderr (default on a terminal)")
      ->group(kPromptGroup);
  app.add_flag_callback("--no-show-timings,--no-perf", timings(false), "print no speeds")->group(kPromptGroup);
  add_request_timeout_option(app, options.timeout_ms);
  app.add_option("--prompt-cache", options.cache_file, "keep the evaluated prompt in this file between runs")
      ->group(kPromptGroup)
      ->type_name("FILE");
  app.add_flag("--prompt-cache-all", options.cache_all, "keep the answers there too")->group(kPromptGroup);
  app.add_flag("--prompt-cache-ro", options.cache_read_only, "use the file, leave it as it is")->group(kPromptGroup);
  accept(app, "--no-context-shift", "a full context ends the answer, as always here", kPromptGroup);
}

void add_chat_options(CLI::App& app, ChatOptions& options) {
  app.add_flag_callback(
         "--cnv,--conversation", [&options] { options.conversation = true; },
         "use a chat template, chatml if the model has none")
      ->group(kChatGroup);
  app.add_flag_callback(
         "--no-cnv,--no-conversation", [&options] { options.conversation = false; },
         "raw completion: the model continues the text")
      ->group(kChatGroup);
  app.add_flag("--st,--single-turn", options.single_turn, "answer once and exit")->group(kChatGroup);
  app.add_option_function<std::string>(
         "--sys,--system-prompt", [&options](const std::string& text) { options.system = unescape(text); },
         "system message")
      ->group(kChatGroup)
      ->type_name("TEXT");
  app.add_option_function<std::string>(
         "--sysf,--system-prompt-file",
         [&options](const std::string& path) {
           std::string text = read_text(path);
           if (!text.empty() && text.back() == '\n') text.pop_back();
           options.system = text;
         },
         "system message from a file, less one trailing newline")
      ->group(kChatGroup)
      ->type_name("FILE");
  add_template_options(app, options);
}

void add_template_options(CLI::App& app, ChatOptions& options) {
  app.add_option_function<std::string>(
         "--chat-template", [&options](const std::string& text) { options.chat_template = text; },
         "built-in template by name, or Jinja source; default: the model's")
      ->group(kChatGroup)
      ->type_name("NAME|JINJA");
  app.add_option_function<std::string>(
         "--chat-template-file", [&options](const std::string& path) { options.chat_template = read_text(path); },
         "Jinja source from a file")
      ->group(kChatGroup)
      ->type_name("FILE");
  app.add_option("--chat-template-kwargs", options.template_kwargs, "JSON object of extra template variables")
      ->group(kChatGroup)
      ->type_name("JSON");
  accept(app, "--jinja", "evaluate the template, as always here", kChatGroup);
  app.add_option_function<std::string>(
         "--rea,--reasoning", [&options](const std::string& v) { options.reasoning = on_off_auto("--reasoning", v); },
         "let the model think first, if its template knows how")
      ->group(kChatGroup)
      ->type_name(kOnOffAuto);
  app.add_option_function<std::string>(
         "--reasoning-format", [&options](const std::string& f) { options.separate_reasoning = f != "none"; },
         "none leaves the thinking in the answer; auto (default) sets it apart")
      ->check(CLI::IsMember({"none", "auto", "deepseek", "deepseek-legacy"}))
      ->group(kChatGroup)
      ->type_name("none|auto|deepseek|deepseek-legacy");
}

void add_color_option(CLI::App& app, std::optional<bool>& color) {
  app.add_option_function<std::string>(
         "--color", [&color](const std::string& value) { color = on_off_auto("--color", value); },
         "colours; auto: on a terminal, unless NO_COLOR is set")
      ->group(kPromptGroup)
      ->type_name(kOnOffAuto);
}

}  // namespace loci::cli
