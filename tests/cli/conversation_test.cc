// Saved conversations: what is written reads back; what is damaged is refused by place.
#include "main/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "kernels/error.h"
#include "main/console.h"

namespace loci::cli {
namespace {

using ::testing::HasSubstr;

class ConversationFile : public ::testing::Test {
 protected:
  ConversationFile() : path_(::testing::TempDir() + "loci_conversation_" + std::to_string(getpid()) + ".json") {}
  ~ConversationFile() override { unlink(path_.c_str()); }

  std::string load_error(const std::string& text) {
    std::ofstream(path_) << text;
    std::string model;
    try {
      load_conversation(path_, model);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::string path_;
};

TEST_F(ConversationFile, ReadsBackAsItWas) {
  Conversation saved;
  saved.system = "Be \"brief\".";
  saved.messages = {{"user", "a\nb\tü", ""}, {"assistant", "c", "thought"}};
  saved.sampling.params.top_k = 7;
  saved.n_predict = 16;
  saved.thinking = false;
  save_conversation(saved, "M", path_);
  std::string model;
  const Conversation loaded = load_conversation(path_, model);
  EXPECT_EQ(model, "M");
  EXPECT_EQ(loaded.system, saved.system);
  ASSERT_EQ(loaded.messages.size(), 2u);
  EXPECT_EQ(loaded.messages[0].content, "a\nb\tü");
  EXPECT_EQ(loaded.messages[1].reasoning_content, "thought");
  EXPECT_EQ(sampling_values(loaded.sampling.params), sampling_values(saved.sampling.params));
  EXPECT_EQ(loaded.n_predict, 16);
  EXPECT_EQ(loaded.thinking, false);
}

TEST_F(ConversationFile, InvalidUtf8IsReplacedNotRefused) {
  Conversation saved;
  saved.messages = {{"user", "x\xff", ""}, {"assistant", "y", ""}};
  save_conversation(saved, "M", path_);
  std::string model;
  EXPECT_EQ(load_conversation(path_, model).messages[0].content, "x\xef\xbf\xbd");
}

TEST_F(ConversationFile, RefusesWithPlaceAndFinding) {
  EXPECT_THAT(load_error(""), HasSubstr("found no valid JSON"));
  EXPECT_THAT(load_error("[]"), HasSubstr("found array"));
  EXPECT_THAT(load_error("{}"), HasSubstr("format: expected a string, found nothing"));
  const std::string head = R"({"format":"loci-conversation","version":1,"model":"m","settings":{},"messages":)";
  EXPECT_EQ(load_error(head + "[]}"), "no error");
  EXPECT_THAT(load_error(R"({"format":"loci-conversation","version":2,"model":"m","messages":[],"settings":{}})"),
              HasSubstr("version: expected 1, found 2"));
  EXPECT_THAT(load_error(head + R"([{"role":"user"}]})"), HasSubstr("messages[0].content: expected a string"));
  EXPECT_THAT(load_error(head + R"([{"role":"tool","content":""}]})"), HasSubstr("messages[0].role: expected user"));
  EXPECT_THAT(load_error(head + R"([{"role":"user","content":""}]})"), HasSubstr("expected an answer after"));
  EXPECT_THAT(
      load_error(R"({"format":"loci-conversation","version":1,"model":"m","messages":[],"settings":{"x":"1"}})"),
      HasSubstr("settings.no setting is called 'x'"));
  std::string model;
  EXPECT_THROW(load_conversation(path_ + ".absent", model), Error);
}

TEST_F(ConversationFile, AFailedSaveLeavesNothing) {
  EXPECT_THROW(save_conversation({}, "M", path_ + "/not/there"), Error);
  EXPECT_NE(access((path_ + "/not/there.partial").c_str(), F_OK), 0);
}

TEST(Console, ControlCharactersBecomePictures) {
  EXPECT_EQ(visible_controls("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(visible_controls("\x1b[31m\x7f"), "\u241b[31m\u2421");
  EXPECT_EQ(visible_controls("\xc2\x9b"), "\uFFFD");
  EXPECT_EQ(visible_controls("\xc3\x9b"), "\xc3\x9b");
  EXPECT_EQ(visible_controls(std::string_view("\0", 1)), "\u2400");
}

}  // namespace
}  // namespace loci::cli
