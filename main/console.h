// Console: which streams are terminals, whether to colour, and how answers are written. Answers go to stdout;
// everything else (prompts, notes, timings) goes to stderr unless both are terminals, where it makes no difference.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace loci::cli {

enum class Style { kPlain, kDim, kBold, kUser };

class Console {
 public:
  // `color`: --color; unset: on terminals unless NO_COLOR is set or TERM is dumb. `simple`: --simple-io, no colours.
  explicit Console(std::optional<bool> color = std::nullopt, bool simple = false);

  bool stdin_is_terminal() const { return stdin_is_terminal_; }
  bool stdout_is_terminal() const { return stdout_is_terminal_; }
  bool stderr_is_terminal() const { return stderr_is_terminal_; }

  // Writes answer text to stdout and flushes. On a terminal control characters other than newline and tab are shown
  // as pictures (U+2400...), so that a model cannot drive the terminal. Throws Error when stdout takes no more.
  void answer(std::string_view text, Style style = Style::kPlain);
  // True when nothing was written yet or the last character written was a newline.
  bool at_line_start() const { return at_line_start_; }
  void end_line();

  // Writes a line for the person at the terminal to stderr.
  void note(std::string_view text, Style style = Style::kPlain) const;

  // Escape sequence that turns a style on; empty without colours.
  std::string_view style_on(Style style, bool on_stderr) const;
  std::string_view style_off(Style style, bool on_stderr) const;

 private:
  bool stdin_is_terminal_, stdout_is_terminal_, stderr_is_terminal_;
  bool color_stdout_, color_stderr_;
  bool at_line_start_ = true;
};

// Replaces control characters other than newline and tab by their pictures.
std::string visible_controls(std::string_view text);

}  // namespace loci::cli
