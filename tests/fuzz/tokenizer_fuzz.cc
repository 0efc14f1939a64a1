// Any bytes as text: every kind of tokenizer takes them, decodes back what it can promise to, and its detokenizer
// shows valid UTF-8 only. Vocabularies are tiny ones made here, under every pre-tokenizer rule.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/detokenizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "tests/text/text_support.h"

namespace {

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t n = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (n == 0 || i + n > text.size()) return false;
    for (size_t j = 1; j < n; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0) != 0x80) return false;
    }
    if (n > 2) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      if (lead == 0xE0 && second < 0xA0) return false;
      if (lead == 0xED && second > 0x9F) return false;
      if (lead == 0xF0 && second < 0x90) return false;
      if (lead == 0xF4 && second > 0x8F) return false;
    }
    i += n;
  }
  return true;
}

void require(bool condition) {
  if (!condition) __builtin_trap();
}

struct Vocabularies {
  std::vector<std::unique_ptr<loci::test::VocabBuilder>> builders;
  std::vector<std::unique_ptr<loci::Tokenizer>> byte_level, others;

  Vocabularies() {
    for (const std::string& pre : loci::PreTokenizer::names()) {
      builders.push_back(std::make_unique<loci::test::VocabBuilder>(loci::test::tiny_bpe()));
      byte_level.push_back(builders.back()->build(pre));
    }
    builders.push_back(std::make_unique<loci::test::VocabBuilder>(loci::test::tiny_spm()));
    others.push_back(builders.back()->build());
  }
};

void try_text(const loci::Tokenizer& tokenizer, std::string_view text, bool special, bool exact) {
  const std::vector<int32_t> ids = tokenizer.encode(text, false, special);
  if (exact && !special) require(tokenizer.decode(ids, true) == text);
  loci::Detokenizer detokenizer(tokenizer, {"stop", "\n\n"}, special);
  std::string shown;
  for (int32_t id : ids) {
    require(id >= 0 && id < tokenizer.vocab_size());
    shown += detokenizer.add(id);
    require(is_valid_utf8(shown));
  }
  shown += detokenizer.finish();
  require(is_valid_utf8(shown));
  require(shown.find("stop") == std::string::npos || special);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Vocabularies vocabularies;
  if (size < 2) return 0;
  const bool special = (data[0] & 1) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto& byte_level = vocabularies.byte_level;
  try_text(*byte_level[data[1] % byte_level.size()], text, special, true);
  for (const auto& tokenizer : vocabularies.others) try_text(*tokenizer, text, special, false);
  return 0;
}
