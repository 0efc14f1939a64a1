// LineEditor: one line of input at a time. On a terminal GNU readline edits it (history, completion, bracketed paste:
// a pasted block is one line with newlines in it); elsewhere lines are read plainly.
#pragma once
#include <string>
#include <vector>

#include "main/console.h"

namespace loci::cli {

class LineEditor {
 public:
  enum class Result { kLine, kEnd, kSignal };  // a line; end of input; SIGINT or another signal

  // `commands` are completed at the start of a line ("/help"), file names after one. `simple`: no readline even on
  // a terminal. One LineEditor at a time: readline's state is global.
  LineEditor(const Console& console, std::vector<std::string> commands, bool simple);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Reads a line without its newline; a last line without one counts. `prompt` is shown on terminals only.
  Result read(const std::string& prompt, std::string& line);
  int signal() const { return signal_; }  // after kSignal

  // Adds a message to the history, and to the history file.
  void remember(const std::string& message);

 private:
  Result read_edited(const std::string& prompt, std::string& line);
  Result read_plain(const std::string& prompt, std::string& line);

  const Console& console_;
  bool edited_;
  int signal_ = 0;
  std::string pending_;  // plain input read beyond the last line
  bool end_of_input_ = false;
  std::string history_path_, last_remembered_;
};

// $XDG_STATE_HOME/loci/history, or ~/.local/state/loci/history.
std::string history_path();

}  // namespace loci::cli
