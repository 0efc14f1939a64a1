// Byte-pair encoding with ranked merges: "gpt2" (over bytes, cut into words by a pre-tokenizer) and "gemma4" (over
// UTF-8 characters, spaces as U+2581, cut at line breaks only).
#include <array>

#include "engine/text/byte_level.h"
#include "engine/text/merge_table.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/unicode.h"
#include "engine/text/vocabulary.h"
#include "engine/text/word_cache.h"
#include "kernels/error.h"
#include "kernels/log.h"

namespace loci {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::unique_ptr<Vocabulary> vocab, std::unique_ptr<PreTokenizer> rule, const gguf::Metadata& metadata)
      : Tokenizer(std::move(vocab)), rule_(std::move(rule)), byte_level_(vocab_->spelling == Spelling::kByteLevel) {
    load_bytes();
    load_merges(metadata);
  }

 protected:
  void encode_text(std::string_view text, bool at_start, WordCache& cache, std::vector<int32_t>& out) const override;

 private:
  void load_bytes();
  void load_merges(const gguf::Metadata& metadata);
  int32_t plain_token(std::string_view spelling) const;
  void encode_word(std::string_view word, std::vector<MergeTable::Symbol>& symbols, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view bytes, std::vector<int32_t>& out) const;

  std::unique_ptr<PreTokenizer> rule_;
  bool byte_level_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_symbols_{};  // symbol of a byte; token ids below vocab size, others above
  std::array<int32_t, 256> byte_tokens_{};   // token of a byte, -1 when the vocabulary has none
};

std::string byte_spelling(uint8_t byte, bool byte_level) {
  std::string spelling;
  if (byte_level) {
    unicode::append(spelling, printable_of_byte(byte));
  } else {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    spelling = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
  }
  return spelling;
}

// Control and unknown tokens are never the result of look-up or merging: text cannot spell them.
int32_t BpeTokenizer::plain_token(std::string_view spelling) const {
  const int32_t id = vocab_->texts.find(spelling);
  return id >= 0 && vocab_->is_plain(id) ? id : -1;
}

void BpeTokenizer::load_bytes() {
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = plain_token(byte_spelling(static_cast<uint8_t>(byte), byte_level_));
    missing += byte_tokens_[byte] < 0;
  }
  if (missing == 0) return;
  const int32_t unk = vocab_->special.unk;
  log_debug(vocab_->file, ": ", missing, " of 256 bytes have no token; ",
            unk >= 0 ? "they become the unknown token" : "they are dropped when encoding");
  for (int32_t& token : byte_tokens_) {
    if (token < 0) token = unk;
  }
}

void BpeTokenizer::load_merges(const gguf::Metadata& metadata) {
  const auto merges = metadata.find_strings(kMergesKey);
  if (!merges) fail(ErrorKind::kInvalidInput, vocab_->file, ": missing key ", kMergesKey);
  // Symbols that are no plain token (a byte or an intermediate result that the vocabulary lacks) are numbered from
  // vocab_size() on: they can merge further, but are written as bytes when they remain.
  StringTable others;
  const auto symbol = [&](std::string_view spelling) {
    const int32_t token = plain_token(spelling);
    if (token >= 0) return token;
    const int32_t other = others.find(spelling);
    return vocab_->size() + (other >= 0 ? other : others.add(spelling));
  };
  if (byte_level_) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_symbols_[byte] = symbol(byte_spelling(static_cast<uint8_t>(byte), byte_level_));
    }
  }
  // Most vocabularies list their tokens in the order of the merges that make them: try the next one first.
  int32_t next = 0;
  const auto result_of = [&](std::string_view left, std::string_view right, std::string_view joined) {
    if (next < vocab_->size() && vocab_->is_plain(next) && !vocab_->texts.is_repeat(next)) {
      const std::string_view text = vocab_->texts[next];
      if (text.size() == joined.size() && text.starts_with(left) && text.ends_with(right)) return next++;
    }
    const int32_t id = symbol(joined);
    next = id + 1;
    return id;
  };
  merges_.reserve(merges->size());
  size_t malformed = 0;
  std::string joined;
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      ++malformed;
      continue;
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    merges_.add(symbol(left), symbol(right), static_cast<uint32_t>(rank), result_of(left, right, joined));
  }
  if (malformed > 0) {
    log_warn(vocab_->file, ": ", kMergesKey, ": ", malformed, " of ", merges->size(),
             " entries are not of the form 'left right' and are ignored");
  }
}

void BpeTokenizer::emit_bytes(std::string_view bytes, std::vector<int32_t>& out) const {
  for (const char c : bytes) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token >= 0) out.push_back(token);
  }
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<MergeTable::Symbol>& symbols,
                               std::vector<int32_t>& out) const {
  symbols.clear();
  if (byte_level_) {
    for (size_t i = 0; i < word.size(); ++i) {
      symbols.push_back({byte_symbols_[static_cast<uint8_t>(word[i])], static_cast<uint32_t>(i), 1});
    }
  } else {
    for (size_t i = 0; i < word.size();) {
      const unicode::Decoded d = unicode::decode(word, i);
      symbols.push_back({plain_token(word.substr(i, d.length)), static_cast<uint32_t>(i), d.length});
      i += d.length;
    }
  }
  if (rule_->ignore_merges()) {
    std::string spelling;
    if (byte_level_) {
      for (const char c : word) unicode::append(spelling, printable_of_byte(static_cast<uint8_t>(c)));
    }
    const int32_t whole = plain_token(byte_level_ ? std::string_view(spelling) : word);
    if (whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  merges_.apply(symbols);
  for (const MergeTable::Symbol& symbol : symbols) {
    if (symbol.id >= 0 && symbol.id < vocab_->size()) {
      out.push_back(symbol.id);
    } else {
      emit_bytes(word.substr(symbol.begin, symbol.length), out);
    }
  }
}

void BpeTokenizer::encode_text(std::string_view text, bool /*at_start*/, WordCache& cache,
                               std::vector<int32_t>& out) const {
  std::string marked;
  if (!byte_level_) {
    for (const char c : text) {
      if (c == ' ') {
        marked += "\u2581";
      } else {
        marked += c;
      }
    }
    text = marked;
  }
  // Symbols count bytes in 32 bits; a longer text is cut, at the price of one word border.
  constexpr size_t kMaxChunk = size_t{1} << 31;
  std::vector<size_t> ends;
  std::vector<MergeTable::Symbol> symbols;
  for (size_t chunk = 0; chunk < text.size(); chunk += kMaxChunk) {
    const std::string_view part = text.substr(chunk, kMaxChunk);
    ends.clear();
    rule_->split(part, ends);
    size_t begin = 0;
    for (const size_t end : ends) {
      const std::string_view word = part.substr(begin, end - begin);
      const auto merge = [&](std::string_view w, std::vector<int32_t>& ids) { encode_word(w, symbols, ids); };
      // Marked text is a copy that does not outlive this call.
      byte_level_ ? cache.append(word, out, merge) : merge(word, out);
      begin = end;
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::unique_ptr<Vocabulary> vocab, std::unique_ptr<PreTokenizer> rule,
                                              const gguf::Metadata& metadata) {
  return std::make_unique<BpeTokenizer>(std::move(vocab), std::move(rule), metadata);
}

}  // namespace loci
