// Token ids of the four real models against tests/data/tokenizer; needs the models.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/text/text_support.h"
#include "tests/text/vocab_golden.h"

namespace loci::test {
namespace {

TEST(VocabGolden, Qwen2) { check_vocab_golden("qwen2", models_dir() / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"); }

class ModelGolden : public testing::TestWithParam<std::string> {};

TEST_P(ModelGolden, SameIdsAndBack) {
  const std::filesystem::path model = models_dir() / (GetParam() + ".gguf");
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "no " << model;
  const std::filesystem::path file = std::filesystem::path(LOCI_TEST_DATA) / "tokenizer" / (GetParam() + ".json");
  const nlohmann::json golden = nlohmann::json::parse(read_bytes(file));
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(model);
  ASSERT_EQ(golden["strings"].size(), 190u);
  for (const auto& entry : golden["strings"]) {
    const std::string text = entry["text"];
    const auto ids = [&](const char* name) { return entry[name].get<std::vector<int32_t>>(); };
    SCOPED_TRACE(entry["id"].dump() + ": " + text);
    EXPECT_EQ(tokenizer->encode(text, false, false), ids("ids"));
    EXPECT_EQ(tokenizer->encode(text, false, true), ids("ids_parse_special"));
    EXPECT_EQ(tokenizer->encode(text, true, true), ids("ids_add_special"));
    std::string back = text;
    if (tokenizer->model_name() == "llama") {  // spells a space as U+2581
      for (size_t pos; (pos = back.find("\u2581")) != std::string::npos;) back.erase(pos, 3).insert(pos, 1, ' ');
    }
    EXPECT_EQ(tokenizer->decode(ids("ids")), back);
    EXPECT_EQ(tokenizer->decode(ids("ids_parse_special"), /*special=*/true), back);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGolden,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m",
                                         "qwen2.5-coder-0.5b-instruct-q4_k_m", "qwen2.5-coder-1.5b-instruct-q4_k_m"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

}  // namespace
}  // namespace loci::test
