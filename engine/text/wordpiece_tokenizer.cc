// "bert": WordPiece (Devlin et al. 2019, arXiv:1810.04805, appendix): lower case without accents, words at spaces
// and punctuation, then the longest tokens from the left. GGUF spells a word's first token with U+2581 in front and
// the others bare.
#include <algorithm>

#include "engine/text/unicode.h"
#include "engine/text/vocabulary.h"
#include "engine/text/word_cache.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr size_t kMaxWordChars = 100;  // a longer word is unknown as a whole, as in the published tokenizer

bool is_cjk(uint32_t cp) {
  return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
         (cp >= 0x2A700 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

// ASCII symbols such as $ and + count as punctuation too.
bool is_punctuation(uint32_t cp) {
  const uint32_t category = unicode::bit(unicode::category(cp));
  return (category & unicode::kPunctuation) != 0 || (cp < 0x80 && (category & unicode::kSymbol) != 0);
}

class WordPieceTokenizer final : public Tokenizer {
 public:
  explicit WordPieceTokenizer(std::unique_ptr<Vocabulary> vocab) : Tokenizer(std::move(vocab)) {
    for (int32_t id = 0; id < vocab_->size(); ++id) max_length_ = std::max(max_length_, vocab_->texts[id].size());
  }

 protected:
  void encode_text(std::string_view text, bool at_start, WordCache& /*cache*/,
                   std::vector<int32_t>& out) const override;

 private:
  void encode_word(const std::string& word, size_t n_chars, std::vector<int32_t>& out) const;
  size_t max_length_ = 0;
};

void WordPieceTokenizer::encode_word(const std::string& word, size_t n_chars, std::vector<int32_t>& out) const {
  const std::string marked = std::string(kSpaceMark) + word;
  const std::string_view all = marked;
  const size_t before = out.size();
  bool known = n_chars <= kMaxWordChars;
  for (size_t pos = 0; known && pos < all.size();) {
    int32_t id = -1;
    size_t length = std::min(all.size() - pos, max_length_);
    for (; length > 0; --length) {
      id = vocab_->texts.find(all.substr(pos, length));
      if (id >= 0 && vocab_->is_plain(id)) break;
      id = -1;
    }
    known = id >= 0;
    if (known) out.push_back(id);
    pos += length;
  }
  if (known) return;
  out.resize(before);
  if (vocab_->special.unk >= 0) out.push_back(vocab_->special.unk);
}

void WordPieceTokenizer::encode_text(std::string_view text, bool /*at_start*/, WordCache& /*cache*/,
                                     std::vector<int32_t>& out) const {
  std::string word;
  size_t n_chars = 0;
  const auto end_word = [&] {
    if (n_chars > 0) encode_word(word, n_chars, out);
    word.clear();
    n_chars = 0;
  };
  for (size_t pos = 0; pos < text.size();) {
    const unicode::Decoded d = unicode::decode(text, pos);
    pos += d.length;
    if (unicode::is_whitespace(d.cp)) {
      end_word();
      continue;
    }
    const unicode::Category category = unicode::category(d.cp);
    const bool is_control = category == unicode::kCc || category == unicode::kCf;
    if (d.cp == 0 || d.cp == unicode::kReplacement || is_control) continue;
    const bool alone = is_cjk(d.cp);
    for (const uint32_t part : unicode::strip_marks(d.cp)) {
      if (part == 0) break;
      const uint32_t cp = unicode::to_lower(part);
      const bool own_word = alone || is_punctuation(cp);
      if (own_word) end_word();
      if (n_chars <= kMaxWordChars) unicode::append(word, cp);  // beyond, the word is unknown anyway
      ++n_chars;
      if (own_word) end_word();
    }
  }
  end_word();
}

}  // namespace

std::unique_ptr<Tokenizer> make_wordpiece_tokenizer(std::unique_ptr<Vocabulary> vocab) {
  return std::make_unique<WordPieceTokenizer>(std::move(vocab));
}

}  // namespace loci
