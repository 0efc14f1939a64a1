// Thinking told from answering, however the text is cut into pieces.
#include "server/reasoning.h"

#include <gtest/gtest.h>

namespace loci::server {
namespace {

struct Split {
  std::string thinking, answer;
  bool operator==(const Split&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Split& split) {
  return out << "thinking '" << split.thinking << "' answer '" << split.answer << "'";
}

Split split_in_pieces(const std::string& text, size_t piece, const std::string& opened) {
  ReasoningSplitter splitter(opened);
  Split out;
  const auto take = [&out](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) (part.thinking ? out.thinking : out.answer) += part.text;
  };
  for (size_t at = 0; at < text.size(); at += piece) take(splitter.add(std::string_view(text).substr(at, piece)));
  take(splitter.finish());
  return out;
}

void expect_split(const std::string& text, const Split& expected, const std::string& opened = "") {
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(split_in_pieces(text, piece, opened), expected) << "pieces of " << piece;
  }
}

TEST(Reasoning, PlainAnswersPassUnchanged) {
  expect_split("Hello < world", {"", "Hello < world"});
  expect_split("  indented", {"", "  indented"});
  expect_split("<thin ice", {"", "<thin ice"});
}

TEST(Reasoning, MarkersSetThinkingApart) {
  expect_split("<think>\nHm.\n</think>\n\nYes.", {"Hm.\n", "Yes."});
  expect_split("\n <think>a</think>b", {"a", "b"});
  expect_split("[THINK]a</think>b[/THINK]c", {"a</think>b", "c"});
  expect_split("<think>\n\n</think>\n\nYes.", {"", "Yes."});
}

TEST(Reasoning, AMarkerLaterInTheAnswerIsText) { expect_split("Use <think>x</think>.", {"", "Use <think>x</think>."}); }

TEST(Reasoning, AClosingMarkerAloneAtTheStartIsNoText) {
  expect_split("</think>\n\nYes.", {"", "Yes."});
  expect_split("</thin", {"", "</thin"});
  expect_split("No </think> here.", {"", "No </think> here."});
}

TEST(Reasoning, UnfinishedThinkingIsThinking) {
  expect_split("<think>a </thi", {"a </thi", ""});
  expect_split("<think>", {"", ""});
  expect_split("<thi", {"", "<thi"});
}

TEST(Reasoning, ThePromptMayHaveOpenedIt) {
  expect_split("Hm.</think>Yes.", {"Hm.", "Yes."}, "<think>");
  // Its own marker ends it, no other.
  expect_split("a</think>b[/THINK]c", {"a</think>b", "c"}, "[THINK]");
  EXPECT_EQ(opened_reasoning("<s>[INST]x[/INST][THINK]"), "[THINK]");
  EXPECT_EQ(opened_reasoning("<|im_start|>assistant\n<think>\n"), "<think>");
  EXPECT_EQ(opened_reasoning("<|im_start|>assistant\n"), "");
  EXPECT_EQ(opened_reasoning(""), "");
}

}  // namespace
}  // namespace loci::server
