// What all commands share on the command line: CLI11 set-up, flag spelling rules, environment twins, exit codes.
// Flags that several commands take are declared in options.{h,cc}; a flag of one command stands in that command's file.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

// The small helpers that go with every command.
#include "main/model_cache.h"
#include "main/progress.h"
#include "main/text_input.h"

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

}  // namespace loci::cli
