// Interrupts: what Ctrl-C (SIGINT) and SIGTERM, SIGHUP do in each phase of a command. Signal handlers need process-wide
// state, so this is the one place in main/ that has some.
//   leaving    (loading, rendering): leave at once with 128 + signal
//   answering  SIGINT stops the answer; a second one before the answer has ended leaves at once
//   prompting  the signal is noted and the line editor woken; a second one leaves at once
// Leaving at once restores colours and terminal modes and ends the process from the handler.
#pragma once
#include "engine/engine.h"

namespace loci::cli::interrupt {

// Installs the handlers and remembers the terminal modes. Called once per command.
void install();

// Phase "answering" while alive; afterwards "leaving".
class Answering {
 public:
  explicit Answering(Engine& engine);
  ~Answering();
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  bool interrupted() const;  // SIGINT came
};

// Phase "prompting" while alive; afterwards "leaving".
class Prompting {
 public:
  Prompting();
  ~Prompting();
  Prompting(const Prompting&) = delete;
  Prompting& operator=(const Prompting&) = delete;
  int signal() const;  // 0, or the signal that came
};

// Becomes readable when a signal comes while prompting (including SIGCONT).
int wake_fd();
void drain_wake_fd();
// True once after SIGCONT: the terminal modes must be set again.
bool take_continued();

}  // namespace loci::cli::interrupt
