#include "tests/text/vocab_golden.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/text/text_support.h"

namespace loci::test {
namespace {

// ../shared/reference/vocab: .inp holds strings, each followed by the separator; .out one line of ids each.
std::vector<std::string> split_inputs(const std::string& text) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> inputs;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = text.find(separator, pos);
    if (end == std::string::npos) break;
    inputs.push_back(text.substr(pos, end - pos));
    pos = end + separator.size();
  }
  return inputs;
}

std::vector<std::vector<int32_t>> split_outputs(const std::string& text) {
  std::vector<std::vector<int32_t>> outputs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id; numbers >> id;) ids.push_back(id);
    outputs.push_back(ids);
  }
  return outputs;
}

}  // namespace

void check_vocab_golden(const std::string& name, const std::filesystem::path& gguf) {
  const std::filesystem::path dir = shared_dir() / "reference/vocab";
  const std::string inputs_file = (dir / ("ggml-vocab-" + name + ".gguf.inp")).string();
  if (!std::filesystem::exists(inputs_file) || !std::filesystem::exists(gguf)) {
    GTEST_SKIP() << "no " << inputs_file << " or " << gguf;
  }
  const std::vector<std::string> inputs = split_inputs(read_bytes(inputs_file));
  const auto outputs = split_outputs(read_bytes(dir / ("ggml-vocab-" + name + ".gguf.out")));
  ASSERT_GE(inputs.size(), 40u);
  ASSERT_LE(inputs.size(), outputs.size());  // some files end with one more empty line
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(gguf);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer->encode(inputs[i], /*add_special=*/false, /*parse_special=*/false);
    EXPECT_EQ(ids, outputs[i]) << name << " string " << i << ": " << inputs[i];
    if (tokenizer->model_name() != "bert") {
      EXPECT_EQ(tokenizer->decode(ids), inputs[i]) << name << " string " << i;
    }
  }
}

}  // namespace loci::test
