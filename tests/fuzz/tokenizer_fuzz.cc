// Any bytes, as text for tiny vocabularies of every kind and as a vocabulary themselves: ids stay inside the
// vocabulary, text comes back where that is promised, plain text yields no control tokens, the detokenizer shows
// valid UTF-8 that equals one-shot decoding, and the sentencepiece library agrees with SpmMerger.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/detokenizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/spm_merger.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "tests/text/text_support.h"

namespace {

using loci::Detokenizer;
using loci::Tokenizer;
using loci::TokenType;
using loci::test::VocabBuilder;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

struct Vocabularies {
  std::vector<std::unique_ptr<Tokenizer>> byte_level;
  std::unique_ptr<Tokenizer> spm, gemma4, wordpiece;
  std::unique_ptr<loci::Vocabulary> spm_vocab;
  std::unique_ptr<loci::SpmMerger> merger;

  Vocabularies() {
    loci::set_log_level(loci::LogLevel::kOutput);
    VocabBuilder bpe = loci::test::tiny_bpe();
    for (const std::string& pre : loci::PreTokenizer::names()) byte_level.push_back(bpe.build(pre));
    VocabBuilder sentence_piece = loci::test::tiny_spm();
    sentence_piece.set_bool("tokenizer.ggml.add_space_prefix", false);
    spm = sentence_piece.build();
    spm_vocab = loci::load_vocabulary(sentence_piece.metadata(), true);
    merger = std::make_unique<loci::SpmMerger>(*spm_vocab);
    VocabBuilder raw("gemma4");
    raw.add_byte_tokens();
    for (const char* text : {"a", "b", "\u2581", "\u00E9", "\n", "<bos>"}) raw.add(text);
    raw.add_merge("a", "b");
    raw.add_merge("\u2581", "ab");
    gemma4 = raw.build();
    VocabBuilder bert("bert");
    for (const char* text : {"[UNK]", "[CLS]", "[SEP]"}) bert.add(text, TokenType::kControl);
    for (const char* text : {"\u2581a", "b", "ab", "\u2581,", "e", "\u2581\u1112", "\u1161"}) bert.add(text);
    bert.set_int("tokenizer.ggml.unknown_token_id", 0);
    wordpiece = bert.build();
  }
};

void try_text(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool exact) {
  const std::vector<int32_t> ids = tokenizer.encode(text, /*add_special=*/false, parse_special);
  for (const int32_t id : ids) {
    require(id >= 0 && id < tokenizer.vocab_size());
    require(parse_special || tokenizer.type(id) != TokenType::kControl || id == tokenizer.special().unk);
  }
  if (exact) require(tokenizer.decode(ids, /*special=*/true) == text);

  const std::string whole = loci::unicode::sanitized(tokenizer.decode(ids));
  Detokenizer plain(tokenizer, {}), stopping(tokenizer, {"stop", "\n\n"});
  std::string shown, until_stop;
  for (const int32_t id : ids) {
    const std::string part = plain.add(id);
    require(loci::unicode::is_valid(part));
    shown += part;
    until_stop += stopping.add(id);
  }
  require(shown + plain.finish() == whole);
  until_stop += stopping.finish();
  require(until_stop == whole.substr(0, std::min(whole.find("stop"), whole.find("\n\n"))));
}

void try_fixed(uint8_t choice, std::string_view text) {
  static const Vocabularies vocabularies;
  const bool parse_special = (choice & 1) != 0;
  const auto& byte_level = vocabularies.byte_level;
  try_text(*byte_level[choice / 2 % byte_level.size()], text, parse_special, /*exact=*/true);
  const bool has_mark = text.find("\u2581") != std::string_view::npos;
  try_text(*vocabularies.spm, text, parse_special, /*exact=*/!has_mark);
  try_text(*vocabularies.gemma4, text, parse_special, /*exact=*/!has_mark);
  try_text(*vocabularies.wordpiece, text, parse_special, /*exact=*/false);
  if (loci::unicode::is_valid(text) && text.find("<think>") == std::string_view::npos) {
    std::vector<int32_t> ids;
    vocabularies.merger->encode(text, ids);
    require(vocabularies.spm->encode(text, false, false) == ids);
  }
}

// Entries end with a ';': type and score from the first two bytes, the rest is the token's text. The last is the text.
void try_vocabulary(uint8_t choice, std::string_view data) {
  loci::set_log_level(loci::LogLevel::kOutput);
  const char* models[] = {"llama", "gpt2", "gemma4", "bert"};
  VocabBuilder vocab(models[choice & 3], "qwen2");
  if ((choice & 4) != 0) vocab.add_byte_tokens();
  if ((choice & 8) != 0) vocab.add_byte_level();
  vocab.set_int("tokenizer.ggml.unknown_token_id", choice >> 4);
  vocab.set_int("tokenizer.ggml.eos_token_id", choice >> 5);
  vocab.with_types = (choice & 16) != 0;
  for (size_t end = data.find(';'); end != std::string_view::npos; end = data.find(';')) {
    const std::string_view entry = data.substr(0, end);
    data.remove_prefix(end + 1);
    if (entry.size() < 2) continue;
    const std::string text(entry.substr(2));
    vocab.add(text, static_cast<TokenType>(entry[0] & 7), entry[1]);
    if (text.size() > 1) vocab.merge(text.substr(0, text.size() / 2), text.substr(text.size() / 2));
  }
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = vocab.build();
  } catch (const loci::Error&) {
    return;
  }
  for (const bool parse_special : {false, true}) try_text(*tokenizer, data, parse_special, /*exact=*/false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[0] & 3) == 0) {
    try_vocabulary(data[1], rest);
  } else {
    try_fixed(data[1], rest);
  }
  return 0;
}
