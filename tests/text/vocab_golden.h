// Comparing token ids with those of ../shared/reference/vocab.
#pragma once
#include <filesystem>
#include <string>

namespace loci::test {

// Ids of ../shared/reference/vocab/ggml-vocab-NAME.gguf.inp against .out, with the vocabulary of `gguf`, and back to
// text. Skips the test when a file is absent.
void check_vocab_golden(const std::string& name, const std::filesystem::path& gguf);

}  // namespace loci::test
