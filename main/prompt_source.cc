#include "main/prompt_source.h"

#include <unistd.h>

#include "kernels/error.h"
#include "main/text_input.h"

namespace loci::cli {
namespace {

// One trailing line end goes: editors and echo add it, nobody means it. A file read by --binary-file keeps it.
std::string without_last_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') {
    text.pop_back();
    if (!text.empty() && text.back() == '\r') text.pop_back();
  }
  return text;
}

}  // namespace

std::optional<std::string> read_prompt(const PromptOptions& options, bool read_stdin) {
  const int given = int{options.text.has_value()} + int{options.file.has_value()} +
                    int{options.binary_file.has_value()} + int{!options.words.empty()};
  if (given > 1) {
    fail(ErrorKind::kInvalidInput,
         "the prompt was given more than once: expected one of -p, -f, --binary-file or plain words");
  }
  if (options.text) return options.text;
  if (options.file) return without_last_newline(read_text(*options.file));
  if (options.binary_file) return read_text(*options.binary_file);
  if (!options.words.empty()) {
    std::string text;
    for (const std::string& word : options.words) text += (text.empty() ? "" : " ") + word;
    return options.escape ? unescape(text) : text;
  }
  if (read_stdin && isatty(STDIN_FILENO) == 0) return without_last_newline(read_text("-"));
  return std::nullopt;
}

}  // namespace loci::cli
