// Where a prompt comes from: -p, words, -f, --binary-file, a pipe.
#pragma once
#include <optional>
#include <string>

#include "main/options.h"

namespace loci::cli {

// The prompt, or nullopt when none was given (and stdin is a terminal or `read_stdin` is false). Throws Error when
// it was given twice or a file cannot be read.
std::optional<std::string> read_prompt(const PromptOptions& options, bool read_stdin);

}  // namespace loci::cli
