// Vocabulary: what every kind of tokenizer reads from GGUF metadata, checked once. Internal to engine/text.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/special_matcher.h"
#include "engine/text/string_table.h"
#include "engine/text/tokenizer.h"

namespace loci {

// How a token's vocabulary spelling turns into bytes.
enum class Spelling {
  kByteLevel,  // every byte is a printable character (GPT-2's table)
  kSpaceMark,  // U+2581 is a space; byte tokens are <0xHH>
};

struct Vocabulary {
  std::string file;  // for messages
  std::string model;
  std::string pre;
  Spelling spelling = Spelling::kByteLevel;
  bool drop_leading_space = false;  // decode() drops the space that encode() puts before text

  StringTable texts;             // id <-> spelling; of equal spellings the lowest id is found
  std::vector<TokenType> types;  // [vocab_size]
  std::vector<float> scores;     // [vocab_size] for "llama", else empty
  std::vector<bool> is_eog;      // [vocab_size]
  std::vector<int32_t> eog;      // ascending
  std::vector<int32_t> suppressed;
  SpecialTokens special;            // every id is -1 or inside the vocabulary
  SpecialMatcher control_and_user;  // parse_special
  SpecialMatcher user_only;

  int32_t size() const { return static_cast<int32_t>(types.size()); }
  // Token that text may become by merging or look-up: control and unknown tokens are not.
  bool is_plain(int32_t id) const {
    const TokenType type = types[static_cast<size_t>(id)];
    return type != TokenType::kControl && type != TokenType::kUnknown;
  }
};

// Reads and checks everything but merges. `default_add_bos`: when tokenizer.ggml.add_bos_token is absent.
std::unique_ptr<Vocabulary> load_vocabulary(const gguf::Metadata& metadata, bool default_add_bos);

// The value of a "<0xHH>" spelling.
std::optional<uint8_t> parse_byte_token(std::string_view text);

// The kinds, chosen by Tokenizer::from_metadata.
class PreTokenizer;
std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::unique_ptr<Vocabulary> vocab, std::unique_ptr<PreTokenizer> rule,
                                              const gguf::Metadata& metadata);
std::unique_ptr<Tokenizer> make_spm_tokenizer(std::unique_ptr<Vocabulary> vocab);
std::unique_ptr<Tokenizer> make_wordpiece_tokenizer(std::unique_ptr<Vocabulary> vocab);

}  // namespace loci
