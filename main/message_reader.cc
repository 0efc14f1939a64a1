#include "main/message_reader.h"

namespace loci::cli {
namespace {
constexpr const char* kQuotes = "\"\"\"";
}

LineEditor::Result MessageReader::read(Message& message) {
  message = {};
  std::string line;
  bool in_block = false;
  for (bool first = true;; first = false) {
    const LineEditor::Result result = editor_->read(first ? "> " : "  ", line);
    if (result == LineEditor::Result::kSignal) return result;
    if (result == LineEditor::Result::kEnd) return first ? result : LineEditor::Result::kLine;
    if (first && line.rfind(kQuotes, 0) == 0) {
      in_block = true;
      line.erase(0, 3);
      if (line.empty()) continue;
    }
    if (in_block) {
      const size_t close = line.rfind(kQuotes);
      const bool closed = close != std::string::npos && line.find_first_not_of(" \t", close + 3) == std::string::npos;
      if (!closed) {
        message.text += line + "\n";
        continue;
      }
      message.text += line.substr(0, close);
      if (close == 0 && !message.text.empty()) message.text.pop_back();  // the quotes stand on a line of their own
      return LineEditor::Result::kLine;
    }
    if (first && line.size() > 1 && line[0] == '/' && line.find('\n') == std::string::npos) {
      message = {line, true};
      return LineEditor::Result::kLine;
    }
    bool more = multiline_;
    if (!line.empty() && (line.back() == '\\' || line.back() == '/')) {
      more = line.back() == '\\' ? !multiline_ : false;
      line.pop_back();
    }
    message.text += line;
    if (!more) return LineEditor::Result::kLine;
    message.text += '\n';
  }
}

}  // namespace loci::cli
