#include "main/bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "main/cli.h"

namespace loci::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> list(const std::string& text, int64_t least = 0) { return parse_int_list("-p", text, least); }

std::string refusal(const std::string& text, int64_t least = 0) {
  try {
    list(text, least);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

BenchOptions parsed(const std::vector<std::string>& args) {
  BenchOptions options;
  const auto app = make_app("bench", "");
  add_bench_options(*app, options);
  EXPECT_TRUE(parse(*app, args));
  return options;
}

std::vector<std::string> names(const BenchOptions& options) {
  std::vector<std::string> out;
  for (const BenchTest& test : options.tests()) out.push_back(test.name());
  return out;
}

TEST(BenchLists, NumbersListsAndRanges) {
  EXPECT_THAT(list("512"), ElementsAre(512));
  EXPECT_THAT(list("1,2,4"), ElementsAre(1, 2, 4));
  EXPECT_THAT(list("1-4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(list("1-8+3"), ElementsAre(1, 4, 7));
  EXPECT_THAT(list("256-2048*2"), ElementsAre(256, 512, 1024, 2048));
  EXPECT_THAT(list("0,16-18"), ElementsAre(0, 16, 17, 18));
}

TEST(BenchLists, RefusesWhatIsNoList) {
  for (const char* text :
       {"", "a", "1,", ",1", "1-", "4-1", "1-4+0", "1-4*1", "0-4*2", "1-4x2", "1 2", "99999999999"}) {
    EXPECT_THAT(refusal(text), HasSubstr("-p: expected a number, a list")) << text;
  }
  EXPECT_THAT(refusal("0", 1), HasSubstr("expected at least 1, found 0"));
  EXPECT_THAT(refusal("1-1000000000"), HasSubstr("at most 1000 values"));
}

TEST(BenchOptions, DefaultsAreThoseOfLlamaBench) {
  const BenchOptions options = parsed({});
  EXPECT_THAT(names(options), ElementsAre("pp512", "tg128"));
  ASSERT_EQ(options.setups().size(), 1u);
  EXPECT_EQ(options.setups()[0].n_batch, 2048);
  EXPECT_EQ(options.setups()[0].n_ubatch, 512);
  EXPECT_EQ(options.repetitions, 5);
}

TEST(BenchOptions, AllCombinationsRun) {
  const BenchOptions options =
      parsed({"-m", "a,b", "-p", "64", "-p", "128", "-n", "0", "-pg", "256,32", "-d", "0,1024", "-t", "1,2"});
  EXPECT_THAT(names(options),
              ElementsAre("pp64", "pp128", "pp256+tg32", "pp64 @ d1024", "pp128 @ d1024", "pp256+tg32 @ d1024"));
  const std::vector<BenchSetup> setups = options.setups();
  ASSERT_EQ(setups.size(), 4u);
  EXPECT_EQ(setups[0].model_path, "a");
  EXPECT_EQ(setups[1].n_threads, 2);
  EXPECT_EQ(setups[3].model_path, "b");
}

TEST(BenchOptions, Refusals) {
  EXPECT_THROW(parsed({"-p", "0", "-n", "0"}).tests(), Error);
  EXPECT_THROW(parsed({"-pg", "5"}).tests(), Error);
  EXPECT_THROW(parsed({"-ctk", "q9"}).setups(), Error);
  EXPECT_THROW(parsed({"-r", "0"}), Error);
  EXPECT_THROW(parsed({"-o", "xml"}), Error);
}

}  // namespace
}  // namespace loci::cli
