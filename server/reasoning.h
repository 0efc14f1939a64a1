// ReasoningSplitter: tells the thinking part of a streamed answer (<think>...</think> and its like) from the answer.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace loci::server {

struct AnswerPart {
  bool thinking = false;
  std::string text;
};

// Feed text in order. Thinking counts only where the answer starts with it (after white space), or where the prompt
// has opened it already. A closing marker at the very start ends thinking that never was. Text that may be the start of
// a marker is held back. The markers themselves, and white space between them and the text, belong to neither part.
class ReasoningSplitter {
 public:
  // `opened`: the opening marker that the prompt ends with, empty when it ends with none.
  // `keeps_markers`: every byte comes out, markers and the space beside them as part of the thinking; the marker of
  // the prompt too.
  explicit ReasoningSplitter(std::string_view opened = {}, bool keeps_markers = false);

  std::vector<AnswerPart> add(std::string_view text);
  std::vector<AnswerPart> finish();

  bool is_thinking() const { return state_ == State::kThinking; }

 private:
  enum class State { kStart, kThinking, kAfter, kAnswer };
  void advance(std::vector<AnswerPart>& out, bool at_end);

  State state_ = State::kStart;
  bool keeps_markers_;
  bool thinking_started_ = false;  // something other than white space was seen inside
  std::string close_;              // marker that ends the thinking
  std::string held_;
  std::string prefix_;  // the prompt's marker, when it comes out with the first text
};

// The opening marker that `prompt` ends with, white space after it allowed; empty when there is none.
std::string_view opened_reasoning(std::string_view prompt);

// The marker that ends what `open` begins. REQUIRES: `open` came from opened_reasoning().
std::string_view closing_marker(std::string_view open);

// All markers, opening and closing.
std::vector<std::string_view> reasoning_markers();

}  // namespace loci::server
