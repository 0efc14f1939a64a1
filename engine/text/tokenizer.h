// Tokenizer: text to token ids and back. Chosen from GGUF metadata (tokenizer.ggml.model):
// "gpt2" = byte-level BPE, "llama" = SentencePiece-style BPE with scores, "bert" = WordPiece.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/metadata.h"

namespace loci {

enum class TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// A stretch of prompt text. Only text that the template itself wrote may become control tokens; what a user,
// a tool or a document said is ordinary text whatever it spells.
struct PromptPiece {
  std::string text;
  bool parse_special = false;
};

// Ids are -1 when the vocabulary has no such token.
struct SpecialTokens {
  int32_t bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, pad = -1, sep = -1, cls = -1, mask = -1;
  int32_t fim_pre = -1, fim_suf = -1, fim_mid = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
  bool add_bos = false, add_eos = false, add_sep = false, add_space_prefix = false;
};

struct Vocabulary;  // engine/text/vocabulary.h
class WordCache;    // engine/text/word_cache.h

class Tokenizer {
 public:
  // Throws Error naming the key when the vocabulary is missing, inconsistent or of an unsupported kind.
  // `pre_override` forces a pre-tokenizer rule (--override-kv tokenizer.ggml.pre=str:NAME); empty: the file's.
  static std::unique_ptr<Tokenizer> from_metadata(const gguf::Metadata& metadata, const std::string& pre_override = "");
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // add_special: BOS/EOS as the metadata asks. parse_special: text that spells a control token becomes that token
  // (user-defined tokens always match). Any bytes are accepted, NUL and invalid UTF-8 included.
  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const;
  // A prompt in pieces, each under its own rule. A word may not be merged across a piece border.
  std::vector<int32_t> encode(std::span<const PromptPiece> pieces, bool add_special) const;

  // Bytes that a token stands for. Control tokens give "" unless `special`. REQUIRES: 0 <= id < vocab_size().
  std::string token_bytes(int32_t id, bool special = false) const;
  // Decodes a whole list (leading-space rule of SentencePiece models included). Any id outside the vocabulary
  // throws Error(kInvalidInput).
  std::string decode(std::span<const int32_t> ids, bool special = false) const;
  // One step of decode(). `at_start`: the text starts here or a control or user-defined token stands before, which
  // is where encode() puts the space prefix; begin with true. REQUIRES: 0 <= id < vocab_size().
  std::string decode_next(int32_t id, bool special, bool& at_start) const;
  // The token's text as the vocabulary spells it.
  std::string_view token_text(int32_t id) const;
  std::optional<int32_t> find(std::string_view text) const;  // vocabulary spelling -> id

  int32_t vocab_size() const;
  TokenType type(int32_t id) const;
  const SpecialTokens& special() const;
  bool is_end_of_generation(int32_t id) const;  // eos, eot, eom and what docs/gguf.md section 8 lists
  std::span<const int32_t> end_of_generation_ids() const;
  std::span<const int32_t> suppressed() const;  // tokenizer.ggml.suppress_tokens
  const std::string& model_name() const;        // "gpt2"
  const std::string& pre_name() const;          // "qwen2", "" when it does not apply

 protected:
  explicit Tokenizer(std::unique_ptr<Vocabulary> vocab);
  // Appends the ids of text that holds no special tokens. `at_start`: as in decode_next(). `cache` is one per
  // encode() call; `text` lives as long.
  virtual void encode_text(std::string_view text, bool at_start, WordCache& cache, std::vector<int32_t>& out) const = 0;
  std::unique_ptr<Vocabulary> vocab_;
};

}  // namespace loci
