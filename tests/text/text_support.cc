#include "tests/text/text_support.h"

#include "engine/text/byte_level.h"
#include "engine/text/unicode.h"

namespace loci::test {
void VocabBuilder::add_byte_level() {
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    unicode::append(text, printable_of_byte(static_cast<uint8_t>(byte)));
    add(text);
  }
}

void VocabBuilder::add_byte_tokens() {
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    add({'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'}, TokenType::kByte);
  }
}

const gguf::Metadata& VocabBuilder::metadata() {
  using gguf::ValueType;
  metadata_.set("tokenizer.ggml.tokens",
                {ValueType::kArray, ValueType::kString, std::vector<std::string_view>(texts_.begin(), texts_.end())});
  if (with_types) metadata_.set("tokenizer.ggml.token_type", {ValueType::kArray, ValueType::kI32, types_});
  if (with_scores) metadata_.set("tokenizer.ggml.scores", {ValueType::kArray, ValueType::kF32, scores_});
  if (with_merges) {
    metadata_.set("tokenizer.ggml.merges", {ValueType::kArray, ValueType::kString,
                                            std::vector<std::string_view>(merges_.begin(), merges_.end())});
  }
  return metadata_;
}

VocabBuilder tiny_bpe() {
  VocabBuilder vocab("gpt2", "gpt-2");
  vocab.add("<|end|>", TokenType::kControl);
  vocab.add("<think>", TokenType::kUserDefined);
  vocab.add_byte_level();
  vocab.add_merge("l", "l");
  vocab.add_merge("h", "e");
  vocab.add_merge("ll", "o");
  vocab.add_merge("he", "llo");
  vocab.add_merge("\u0120", "w");
  vocab.add_merge("o", "r");
  vocab.add_merge("\u0120w", "or");
  vocab.add_merge("\u00C3", "\u00A9");  // the two bytes of e acute
  vocab.set_int("tokenizer.ggml.eos_token_id", 0);
  return vocab;
}

VocabBuilder tiny_spm() {
  VocabBuilder vocab("llama");
  vocab.add("<unk>", TokenType::kUnknown);
  vocab.add("<s>", TokenType::kControl);
  vocab.add("</s>", TokenType::kControl);
  vocab.add_byte_tokens();
  vocab.add("<think>", TokenType::kUserDefined);
  double score = 0;
  for (const char* piece : {"\u2581h", "ll", "llo", "\u2581he", "\u2581hello", "\u2581w", "or", "\u2581wor", "\u2581",
                            "h", "e", "l", "o", "w", "r", "d", "\u00E9"}) {
    vocab.add(piece, TokenType::kNormal, --score);
  }
  vocab.set_int("tokenizer.ggml.bos_token_id", 1);
  vocab.set_int("tokenizer.ggml.eos_token_id", 2);
  vocab.set_int("tokenizer.ggml.unknown_token_id", 0);
  return vocab;
}

}  // namespace loci::test
