// Shared by the tests of engine/text: where reference data and models lie, tokenizers from files, tiny vocabularies.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "gguf/gguf.h"
#include "gguf/metadata.h"

namespace loci::test {

inline std::filesystem::path shared_dir() {
  const char* dir = std::getenv("LOCI_SHARED");
  return dir != nullptr ? dir : LOCI_SHARED_DEFAULT;
}

inline std::filesystem::path models_dir() {
  if (const char* dir = std::getenv("LOCI_MODELS")) return dir;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/") / ".cache/loci/models";
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  return Tokenizer::from_metadata(gguf::File::open(path.string()).metadata());
}

// Metadata of a vocabulary put together in memory.
class VocabBuilder {
 public:
  explicit VocabBuilder(const std::string& model, const std::string& pre = "") : metadata_("tiny.gguf") {
    set_string("tokenizer.ggml.model", model);
    if (!pre.empty()) set_string("tokenizer.ggml.pre", pre);
  }

  int32_t add(std::string text, TokenType type = TokenType::kNormal, double score = 0) {
    texts_.push_back(std::move(text));
    types_.push_back(static_cast<int64_t>(type));
    scores_.push_back(score);
    return static_cast<int32_t>(texts_.size()) - 1;
  }
  void merge(const std::string& left, const std::string& right) { merges_.push_back(left + " " + right); }
  // A merge and the token that it makes.
  int32_t add_merge(const std::string& left, const std::string& right) {
    merge(left, right);
    return add(left + right);
  }
  // The 256 byte tokens of byte-level BPE or of SentencePiece.
  void add_byte_level();
  void add_byte_tokens();

  void set_string(const std::string& key, const std::string& value) {
    metadata_.set(key, {gguf::ValueType::kString, {}, value});
  }
  void set_int(const std::string& key, int64_t value) { metadata_.set(key, {gguf::ValueType::kI64, {}, value}); }
  void set_bool(const std::string& key, bool value) { metadata_.set(key, {gguf::ValueType::kBool, {}, value}); }

  // Valid as long as the builder.
  const gguf::Metadata& metadata();
  std::unique_ptr<Tokenizer> build(const std::string& pre_override = "") {
    return Tokenizer::from_metadata(metadata(), pre_override);
  }

  std::vector<std::string> texts_, merges_;
  std::vector<int64_t> types_;
  std::vector<double> scores_;
  bool with_types = true, with_scores = true, with_merges = true;

 private:
  gguf::Metadata metadata_;
};

// Byte-level BPE with a few merges; SentencePiece-style with a few pieces. Both know all bytes.
VocabBuilder tiny_bpe();
VocabBuilder tiny_spm();

}  // namespace loci::test
