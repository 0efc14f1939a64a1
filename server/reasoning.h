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
// has opened it already. Text that may be the start of a marker is held back. The markers themselves, and white
// space between them and the text, belong to neither part.
class ReasoningSplitter {
 public:
  // `starts_inside`: the prompt ends with an opening marker.
  explicit ReasoningSplitter(bool starts_inside = false);

  std::vector<AnswerPart> add(std::string_view text);
  std::vector<AnswerPart> finish();

 private:
  enum class State { kStart, kThinking, kAfter, kAnswer };
  void advance(std::vector<AnswerPart>& out, bool at_end);

  State state_;
  bool thinking_started_ = false;  // something other than white space was seen inside
  std::string close_;              // marker that ends the thinking
  std::string held_;
};

// The opening marker that `prompt` ends with, white space after it allowed; empty when there is none.
std::string_view opened_reasoning(std::string_view prompt);

}  // namespace loci::server
