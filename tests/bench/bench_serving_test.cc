#include "main/bench_serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/error.h"
#include "tests/support/tiny_model.h"

namespace loci::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  std::istringstream in(text);
  try {
    read_workload(in, "w");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Workload, Reads) {
  std::istringstream in(
      "{\"id\":\"a\",\"prompt\":[1,2,3],\"max_tokens\":4}\n\n"
      "{\"id\":\"b\",\"prompt\":[5],\"max_tokens\":1,\"at_ms\":2.5,\"after\":\"a\"}\n");
  const std::vector<ServedRequest> requests = read_workload(in, "w");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_THAT(requests[0].prompt, ElementsAre(1, 2, 3));
  EXPECT_EQ(requests[0].at_ms, 0);
  EXPECT_EQ(requests[1].at_ms, 2.5);
  EXPECT_EQ(requests[1].after, "a");
}

TEST(Workload, Refusals) {
  EXPECT_THAT(refusal(""), HasSubstr("holds no requests"));
  EXPECT_THAT(refusal("{"), HasSubstr("w: line 1: "));
  EXPECT_THAT(refusal("{\"id\":\"a\",\"prompt\":\"text\",\"max_tokens\":1}"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{\"id\":\"a\",\"prompt\":[1],\"max_tokens\":0}"), HasSubstr("max_tokens"));
  EXPECT_THAT(refusal("{\"id\":\"a\",\"prompt\":[1],\"max_tokens\":1,\"at_ms\":-1}"), HasSubstr("at_ms"));
  EXPECT_THAT(refusal("{\"id\":\"a\",\"prompt\":[1],\"max_tokens\":1,\"after\":\"b\"}"), HasSubstr("after"));
  const std::string line = "{\"id\":\"a\",\"prompt\":[1],\"max_tokens\":1}\n";
  EXPECT_THAT(refusal(line + line), HasSubstr("line 2: id: 'a' is used twice"));
}

TEST(ServeWorkload, RunsArrivalsInTheirOrder) {
  EngineConfig config;
  config.model_path = test::tiny_model_file({});
  config.n_ctx = 512;
  config.max_sequences = 2;
  config.n_threads = 1;
  const auto engine = Engine::load(config);
  const std::vector<int32_t> prompt = test::random_tokens(64, 7);
  const std::vector<ServedRequest> requests = {
      {"cold", prompt, 6, 0, ""}, {"late", test::random_tokens(5, 8), 3, 5, ""}, {"again", prompt, 6, 1, "cold"}};
  const std::vector<ServedResult> results = serve_workload(*engine, requests);
  ASSERT_EQ(results.size(), 3u);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].id, requests[i].id);
    EXPECT_EQ(results[i].tokens.size(), static_cast<size_t>(requests[i].max_tokens));
    EXPECT_EQ(results[i].token_ms.size(), results[i].tokens.size());
    EXPECT_TRUE(std::is_sorted(results[i].token_ms.begin(), results[i].token_ms.end()));
    EXPECT_GE(results[i].token_ms.front(), results[i].submitted_ms);
    EXPECT_GE(results[i].finished_ms, results[i].token_ms.back());
  }
  EXPECT_EQ(results[1].submitted_ms, 5);
  EXPECT_EQ(results[2].submitted_ms, results[0].finished_ms + 1);
  EXPECT_EQ(results[0].stats.n_cached, 0);
  EXPECT_GE(results[2].stats.n_cached, 48);
  EXPECT_EQ(results[2].tokens, results[0].tokens);

  std::istringstream text(results_text(results, engine->metrics()));
  std::string line;
  std::vector<nlohmann::json> lines;
  while (std::getline(text, line)) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["id"], "cold");
  EXPECT_EQ(lines[0]["token_ms"].size(), 6u);
  EXPECT_EQ(lines[3]["summary"]["n_requests"], 3);
  EXPECT_EQ(lines[3]["summary"]["n_predicted"], 15);
  EXPECT_EQ(lines[3]["summary"]["n_preempted"], 0);
  EXPECT_GT(lines[3]["summary"]["n_steps"], 0);
}

}  // namespace
}  // namespace loci::cli
