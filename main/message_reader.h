// MessageReader: one message or command of a chat from one or more lines.
//   """ ... """   a block of lines, taken as they are
//   trailing \    flips what the line's end does: goes on without multi-line mode, submits with it
//   trailing /    submits in either mode
// Both characters are taken off. Lines that start with / are commands and end at once.
#pragma once
#include <string>

#include "main/line_editor.h"

namespace loci::cli {

struct Message {
  std::string text;
  bool is_command = false;
};

class MessageReader {
 public:
  explicit MessageReader(LineEditor& editor, bool multiline) : editor_(&editor), multiline_(multiline) {}

  // kEnd only when nothing was typed before the end of input.
  LineEditor::Result read(Message& message);

  bool multiline() const { return multiline_; }
  void set_multiline(bool on) { multiline_ = on; }

 private:
  LineEditor* editor_;
  bool multiline_;
};

}  // namespace loci::cli
