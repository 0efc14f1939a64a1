#include "main/interrupt.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "kernels/check.h"

namespace loci::cli::interrupt {
namespace {

enum Phase : int { kLeaving, kAnswering, kPrompting };

std::atomic<int> g_phase{kLeaving};
std::atomic<int> g_signal{0};
std::atomic<bool> g_continued{false};
std::atomic<Engine*> g_engine{nullptr};
int g_wake[2] = {-1, -1};
termios g_modes;
bool g_has_modes = false;

void write_all(int fd, const char* text, size_t size) {
  if (write(fd, text, size) < 0) return;
}

[[noreturn]] void leave(int signal) {
  if (g_has_modes) tcsetattr(STDIN_FILENO, TCSANOW, &g_modes);
  constexpr char kReset[] = "\033[0m\033[?2004l\r\033[K";  // plain colours, no bracketed paste, an empty line
  if (isatty(STDOUT_FILENO))
    write_all(STDOUT_FILENO, kReset, sizeof kReset - 1);
  else if (isatty(STDERR_FILENO))
    write_all(STDERR_FILENO, kReset, sizeof kReset - 1);
  _exit(128 + signal);
}

void on_signal(int signal) {
  const int saved_errno = errno;
  const int before = g_signal.exchange(signal);
  switch (g_phase.load()) {
    case kAnswering:
      if (before != 0 || signal != SIGINT) leave(signal);
      if (Engine* engine = g_engine.load()) engine->cancel_all();
      break;
    case kPrompting:
      if (before != 0) leave(signal);
      write_all(g_wake[1], "s", 1);
      break;
    default:
      leave(signal);
  }
  errno = saved_errno;
}

void on_continue(int) {
  const int saved_errno = errno;
  g_continued = true;
  write_all(g_wake[1], "c", 1);
  errno = saved_errno;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a blocked read at the prompt must return
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN && signal != SIGCONT) return;  // nohup, background jobs
  sigaction(signal, &action, nullptr);
}

void enter(Phase phase) {
  g_signal = 0;
  g_phase = phase;
}

}  // namespace

void install() {
  if (g_wake[0] < 0) {
    LOCI_CHECK(pipe2(g_wake, O_CLOEXEC | O_NONBLOCK) == 0, "pipe2 failed: errno ", errno);
    g_has_modes = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &g_modes) == 0;
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, on_signal);
  handle(SIGCONT, on_continue);
}

Answering::Answering(Engine& engine) {
  g_engine = &engine;
  enter(kAnswering);
}
Answering::~Answering() {
  g_phase = kLeaving;
  g_engine = nullptr;
}
bool Answering::interrupted() const { return g_signal.load() != 0; }

Prompting::Prompting() { enter(kPrompting); }
Prompting::~Prompting() { g_phase = kLeaving; }
int Prompting::signal() const { return g_signal.load(); }

int wake_fd() { return g_wake[0]; }

void drain_wake_fd() {
  char bytes[16];
  while (read(g_wake[0], bytes, sizeof bytes) > 0) {
  }
}

bool take_continued() { return g_continued.exchange(false); }

}  // namespace loci::cli::interrupt
