// Token ids of the vocabulary files in ../shared/reference/vocab.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/text/text_support.h"
#include "tests/text/vocab_golden.h"

namespace loci::test {
namespace {

class VocabGolden : public testing::TestWithParam<std::string> {};

TEST_P(VocabGolden, SameIds) {
  check_vocab_golden(GetParam(), shared_dir() / "reference/vocab" / ("ggml-vocab-" + GetParam() + ".gguf"));
}

INSTANTIATE_TEST_SUITE_P(Shared, VocabGolden,
                         testing::Values("baichuan", "bert-bge", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2",
                                         "gpt-neox", "llama-spm", "mpt", "phi-3", "refact", "starcoder"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace loci::test
