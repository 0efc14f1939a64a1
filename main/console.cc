#include "main/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/error.h"

namespace loci::cli {

Console::Console(std::optional<bool> color, bool simple)
    : stdin_is_terminal_(isatty(STDIN_FILENO) != 0),
      stdout_is_terminal_(isatty(STDOUT_FILENO) != 0),
      stderr_is_terminal_(isatty(STDERR_FILENO) != 0) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool wanted =
      (no_color == nullptr || *no_color == '\0') && !(term != nullptr && std::strcmp(term, "dumb") == 0);
  color_stdout_ = !simple && color.value_or(wanted && stdout_is_terminal_);
  color_stderr_ = !simple && color.value_or(wanted && stderr_is_terminal_);
}

std::string_view Console::style_on(Style style, bool on_stderr) const {
  if (!(on_stderr ? color_stderr_ : color_stdout_)) return "";
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kDim:
      return "\033[2m";
    case Style::kBold:
      return "\033[1m";
    case Style::kUser:
      return "\033[1;32m";
  }
  return "";
}

std::string_view Console::style_off(Style style, bool on_stderr) const {
  return style_on(style, on_stderr).empty() ? "" : "\033[0m";
}

void Console::answer(std::string_view text, Style style) {
  if (text.empty()) return;
  std::string out(style_on(style, false));
  out += stdout_is_terminal_ ? visible_controls(text) : std::string(text);
  out += style_off(style, false);
  at_line_start_ = text.back() == '\n';
  const char* rest = out.data();
  size_t left = out.size();
  while (left > 0) {  // write(2), not stdio: a signal in between must not lose text
    const ssize_t n = write(STDOUT_FILENO, rest, left);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) fail(ErrorKind::kInternal, "stdout: ", std::strerror(errno));
    rest += n;
    left -= static_cast<size_t>(n);
  }
}

void Console::end_line() {
  if (!at_line_start_) answer("\n");
}

void Console::note(std::string_view text, Style style) const {
  std::string line(style_on(style, true));
  line += text;
  line += style_off(style, true);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

std::string visible_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080..U+009F: 8-bit control sequences
    if (c1) {
      out += "\uFFFD";
      ++i;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      out += "\xe2\x90";  // U+2400 + byte, U+2421 for DEL
      out += static_cast<char>(byte == 0x7f ? 0xa1 : 0x80 + byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace loci::cli
