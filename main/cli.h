// What all commands share on the command line: CLI11 set-up, flag spelling rules, environment twins, exit codes.
// Flags that several commands take are declared in options.{h,cc}; a flag of one command stands in that command's file.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace loci::cli {

// Type name of an option that may stand without a value ("-fa" means "-fa on"): option->type_name(kOnOffAuto).
inline constexpr const char* kOnOffAuto = "on|off|auto";

// An App with the house rules: --flag value and --flag=value; one-dash multi-letter flags ("-ngl" is declared as
// "--ngl" and accepted as either); -h/--help; the log flags (-v, -lv, --log-file, --log-disable).
std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description);

// Parses `args` (without program and command name). Returns true to go on; false when help was printed (exit 0).
// Throws Error(kInvalidInput) "invalid argument: --foo (did you mean --food?)" for unknown flags and bad values,
// Error(kUnsupported) for flags known from llama.cpp that this build does not have. Every flag --some-name that is
// not on the command line is taken from the environment variable LLAMA_ARG_SOME_NAME when that is set.
[[nodiscard]] bool parse(CLI::App& app, std::vector<std::string> args);

// Path of a model for -m: an existing file as it is; an alias (smollm2, gemma3-270m, qwen2.5-coder-0.5b,
// qwen2.5-coder-1.5b) or "" (the default model) from the model cache. Throws Error(kNotFound) saying how to fetch it.
std::string resolve_model(const std::string& name);

// Reads a file, or stdin for "-". Throws Error naming the path and the reason.
std::string read_text(const std::string& path);

// Turns \n \t \r \" \' \\ into the characters they stand for (-e); other backslashes stay.
std::string unescape(const std::string& text);

// "1.5 GiB", "12.3 MiB", "17 B".
std::string bytes_text(double bytes);

// A progress line on stderr: drawn only when stderr is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // clears the line
  void update(double done, double total, const std::string& detail);

 private:
  std::string label_;
  bool active_;
  double last_drawn_s_ = -1;
};

}  // namespace loci::cli
