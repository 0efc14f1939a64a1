// loci tokenize on a vocabulary-only file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gguf/writer.h"
#include "kernels/error.h"
#include "main/commands.h"
#include "tests/text/text_support.h"

namespace loci::test {
namespace {

class TokenizeCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::filesystem::temp_directory_path() / ("loci-tokenize-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder());
    write(tiny_bpe(), "bpe.gguf");
    VocabBuilder spm = tiny_spm();
    write(spm, "spm.gguf");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
  static std::string file(const std::string& name) { return (folder() / name).string(); }

  static void write(VocabBuilder vocab, const std::string& name) {
    gguf::Writer writer;
    writer.set_string("general.architecture", "llama");
    const gguf::Metadata& metadata = vocab.metadata();
    for (const std::string& key : metadata.keys()) writer.set(key, *metadata.find(key));
    writer.write(file(name));
  }

  static std::string run(std::vector<std::string> args) {
    testing::internal::CaptureStdout();
    int code = 1;
    try {
      code = cli::cmd_tokenize(args);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return out;
  }

  static std::string error(const std::vector<std::string>& args) {
    try {
      run(args);
    } catch (const std::exception& failure) {
      return failure.what();
    }
    return "no error";
  }
};

TEST_F(TokenizeCommand, PrintsOneTokenPerLine) {
  EXPECT_EQ(run({"-m", file("bpe.gguf"), "-p", "hello<|end|>"}), "   261 -> 'hello'\n     0 -> '<|end|>'\n");
  EXPECT_EQ(run({"-m", file("spm.gguf"), "-p", "hello"}), "     1 -> '<s>'\n   264 -> ' hello'\n");
}

TEST_F(TokenizeCommand, PrintsIdsOrJson) {
  const std::string m = file("spm.gguf");
  EXPECT_EQ(run({"-m", m, "-p", "hello", "--ids"}), "[1, 264]\n");
  EXPECT_EQ(run({"-m", m, "-p", "hello", "--ids", "--no-bos"}), "[264]\n");
  EXPECT_EQ(run({"-m", m, "-p", "hello", "--json"}), "{\"tokens\":[1,264]}\n");
  EXPECT_EQ(run({"-m", m, "-p", "", "--json", "--no-bos"}), "{\"tokens\":[]}\n");
  EXPECT_EQ(run({"-m", m, "-p", "hello", "--ids", "--show-count"}), "[1, 264]\nTotal number of tokens: 2\n");
  EXPECT_EQ(run({"-m", m, "-p", "</s>", "--ids", "--no-bos"}), "[2]\n");
  EXPECT_THAT(run({"-m", m, "-p", "</s>", "--ids", "--no-bos", "--no-parse-special"}),
              testing::Not(testing::HasSubstr("[2]")));
}

TEST_F(TokenizeCommand, EscapesOnRequestOnly) {
  const std::string m = file("bpe.gguf");
  EXPECT_EQ(run({"-m", m, "-p", "\\n", "--ids"}), "[94, 112]\n");
  EXPECT_EQ(run({"-m", m, "-p", "\\n", "--ids", "-e"}), "[12]\n");
}

TEST_F(TokenizeCommand, ReadsFilesAndGivesTheBytesBack) {
  const std::string text("hello\0 w\xFF\xE4\xB8\u4E2D</s><s>\n\n", 24);
  std::ofstream(file("text"), std::ios::binary) << text;
  for (const char* m : {"bpe.gguf", "spm.gguf"}) {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{}, {"--no-bos"}, {"--no-parse-special"}, {"--no-bos", "--no-parse-special"}}) {
      std::vector<std::string> to = {"-m", file(m), "-f", file("text"), "--json"};
      std::vector<std::string> back = {"-m", file(m), "-f", file("ids"), "--detokenize"};
      to.insert(to.end(), flags.begin(), flags.end());
      back.insert(back.end(), flags.begin(), flags.end());
      std::ofstream(file("ids"), std::ios::binary) << run(to);
      EXPECT_EQ(run(back), text) << m;
    }
  }
  EXPECT_EQ(run({"-m", file("bpe.gguf"), "--detokenize", "-p", "[261, 0]"}), "hello<|end|>");
}

TEST_F(TokenizeCommand, RefusesBadInputByName) {
  const std::string m = file("bpe.gguf");
  EXPECT_THAT(error({"-m", m}), testing::HasSubstr("-p TEXT"));
  EXPECT_THAT(error({"-m", m, "-p", "a", "-f", "b"}), testing::HasSubstr("-p and -f"));
  EXPECT_THAT(error({"-m", m, "-f", file("absent")}), testing::HasSubstr("absent"));
  for (const char* ids : {"", "hello", "{}", "[1", "[1.5]", "[\"1\"]", "{\"tokens\":1}"}) {
    EXPECT_THAT(error({"-m", m, "--detokenize", "-p", ids}), testing::HasSubstr("expected {\"tokens\"")) << ids;
  }
  for (const char* ids :
       {"[-1]", "[270]", "[99999999999999999999]", "[18446744073709551615]", "[-9223372036854775808]"}) {
    EXPECT_THAT(error({"-m", m, "--detokenize", "-p", ids}), testing::HasSubstr("expected")) << ids;
  }
  EXPECT_THAT(error({"-m", m, "-p", "a", "--override-kv", "tokenizer.ggml.pre=str:nope"}), testing::HasSubstr("nope"));
  EXPECT_THAT(error({"-m", m, "-p", "a", "--override-kv", "x=int:1"}), testing::HasSubstr("tokenizer.ggml.pre=str:"));
}

}  // namespace
}  // namespace loci::test
