#include "main/line_editor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

// readline's header wants FILE first.
#include <readline/history.h>
#include <readline/readline.h>

#include "kernels/log.h"
#include "main/interrupt.h"

namespace loci::cli {
namespace {

constexpr int kMaxHistory = 1000;  // entries kept in the file

// readline calls back without context.
const std::vector<std::string>* g_commands = nullptr;
bool g_line_done = false;
bool g_line_is_end = false;
std::string g_line;

void on_line(char* text) {
  g_line_done = true;
  g_line_is_end = text == nullptr;
  g_line = text == nullptr ? "" : text;
  std::free(text);
  rl_callback_handler_remove();
}

char* next_command(const char* prefix, int state) {
  static size_t index = 0;
  if (state == 0) index = 0;
  while (index < g_commands->size()) {
    const std::string& command = (*g_commands)[index++];
    if (command.rfind(prefix, 0) == 0) return strdup(command.c_str());
  }
  return nullptr;
}

char** complete(const char* text, int start, int) {
  const std::string line(rl_line_buffer);
  const bool is_command = !line.empty() && line[0] == '/';
  if (is_command && start == 0) {
    rl_attempted_completion_over = 1;
    return rl_completion_matches(text, next_command);
  }
  if (!is_command) rl_attempted_completion_over = 1;  // plain text: nothing to complete
  return nullptr;                                     // after a command: file names, readline's own
}

void prepare_locale() {
  // Only character types: numbers keep their points. Without any locale readline would measure bytes.
  const char* chosen = std::setlocale(LC_CTYPE, "");
  if (chosen == nullptr || std::strcmp(chosen, "C") == 0 || std::strcmp(chosen, "POSIX") == 0) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

// Creates the file and its folder, for the owner's eyes only. False (with a warning) when that cannot be done.
bool prepare_history_file(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    log_warn("history file ", path, ": ", std::strerror(errno), "; the history is not kept");
    return false;
  }
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 077) != 0 && fchmod(fd, 0600) != 0) {
    log_warn("history file ", path, ": others may read it (", std::strerror(errno), ")");
  }
  close(fd);
  return true;
}

}  // namespace

std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/loci/history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.local/state/loci/history";
}

LineEditor::LineEditor(const Console& console, std::vector<std::string> commands, bool simple)
    : console_(console),
      edited_(console.stdin_is_terminal() && !simple &&
              (console.stdout_is_terminal() || console.stderr_is_terminal())) {
  if (!edited_) return;
  static std::vector<std::string> names;
  names = std::move(commands);
  g_commands = &names;
  prepare_locale();
  rl_readline_name = "loci";
  rl_catch_signals = 0;  // interrupt.cc owns them
  rl_change_environment = 0;
  rl_outstream = console_.stdout_is_terminal() ? stdout : stderr;
  rl_attempted_completion_function = complete;
  rl_variable_bind("enable-bracketed-paste", "on");
  history_comment_char = '#';  // with time stamps, entries of several lines survive the file
  history_write_timestamps = 1;
  using_history();
  history_path_ = history_path();
  if (!history_path_.empty() && !prepare_history_file(history_path_)) history_path_.clear();
  if (!history_path_.empty()) {
    read_history(history_path_.c_str());
    if (history_length > kMaxHistory + kMaxHistory / 4) history_truncate_file(history_path_.c_str(), kMaxHistory);
    stifle_history(kMaxHistory);
  }
}

LineEditor::~LineEditor() { g_commands = nullptr; }

void LineEditor::remember(const std::string& message) {
  if (!edited_ || message.empty() || message == last_remembered_) return;
  last_remembered_ = message;
  add_history(message.c_str());
  if (!history_path_.empty()) append_history(1, history_path_.c_str());
}

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  return edited_ ? read_edited(prompt, line) : read_plain(prompt, line);
}

LineEditor::Result LineEditor::read_edited(const std::string& prompt, std::string& line) {
  const interrupt::Prompting prompting;
  const bool on_stderr = !console_.stdout_is_terminal();
  const std::string_view on = console_.style_on(Style::kUser, on_stderr);
  // \001 and \002 tell readline that what lies between has no width. The colour stays on for what is typed.
  const std::string styled = on.empty() ? prompt : "\001" + std::string(on) + "\002" + prompt;
  g_line_done = false;
  rl_callback_handler_install(styled.c_str(), on_line);
  while (!g_line_done && prompting.signal() == 0) {
    pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt::wake_fd(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) interrupt::drain_wake_fd();
    if (prompting.signal() != 0) break;
    if (interrupt::take_continued()) {  // back from Ctrl-Z: the shell has set the modes for itself
      rl_prep_terminal(1);
      rl_forced_update_display();
    }
    if (fds[0].revents != 0) {
      rl_callback_read_char();
    } else {
      rl_check_signals();  // a new window size
    }
  }
  if (!g_line_done) rl_callback_handler_remove();
  const std::string_view off = console_.style_off(Style::kUser, on_stderr);
  std::fwrite(off.data(), 1, off.size(), rl_outstream);
  if (!g_line_done || g_line_is_end) std::fputc('\n', rl_outstream);
  std::fflush(rl_outstream);
  if (!g_line_done) {
    signal_ = prompting.signal();
    return signal_ == 0 ? Result::kEnd : Result::kSignal;
  }
  line = std::move(g_line);
  return g_line_is_end ? Result::kEnd : Result::kLine;
}

LineEditor::Result LineEditor::read_plain(const std::string& prompt, std::string& line) {
  const interrupt::Prompting prompting;
  if (console_.stdin_is_terminal()) {
    std::fputs(prompt.c_str(), stderr);
    std::fflush(stderr);
  }
  for (;;) {
    const size_t newline = pending_.find('\n');
    if (newline != std::string::npos) {
      line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Result::kLine;
    }
    if (end_of_input_) {
      line = std::move(pending_);
      pending_.clear();
      return line.empty() ? Result::kEnd : Result::kLine;
    }
    pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt::wake_fd(), POLLIN, 0}};
    const int ready = poll(fds, 2, -1);
    if (prompting.signal() != 0) {
      signal_ = prompting.signal();
      return Result::kSignal;
    }
    if (ready < 0) {
      if (errno != EINTR) end_of_input_ = true;
      continue;
    }
    if (fds[1].revents != 0) interrupt::drain_wake_fd();
    if (fds[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0) pending_.append(bytes, static_cast<size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) end_of_input_ = true;
  }
}

}  // namespace loci::cli
