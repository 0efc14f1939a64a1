#include "engine/text/tokenizer.h"

#include <algorithm>

#include "engine/text/byte_level.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/unicode.h"
#include "engine/text/vocabulary.h"
#include "engine/text/word_cache.h"
#include "gguf/printable.h"
#include "kernels/error.h"
#include "kernels/log.h"

namespace loci {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

std::string bytes_of_byte_level(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const unicode::Decoded d = unicode::decode(text, pos);
    const int byte = d.valid ? byte_of_printable(d.cp) : -1;
    if (byte >= 0) {
      out += static_cast<char>(byte);
    } else {
      out += text.substr(pos, d.length);
    }
    pos += d.length;
  }
  return out;
}

std::string with_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, pos), text.size());
    out += text.substr(pos, mark - pos);
    if (mark < text.size()) out += ' ';
    pos = mark + kSpaceMark.size();
  }
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_metadata(const gguf::Metadata& metadata, const std::string& pre_override) {
  const std::string model = metadata.require_string("tokenizer.ggml.model");
  const std::string file = gguf::printable(metadata.file(), 4096);
  if (model == "llama") return make_spm_tokenizer(load_vocabulary(metadata, /*default_add_bos=*/true));
  if (model == "bert") return make_wordpiece_tokenizer(load_vocabulary(metadata, /*default_add_bos=*/true));
  if (model != "gpt2" && model != "gemma4") {
    fail(ErrorKind::kUnsupported, file, ": tokenizer.ggml.model: expected gpt2, llama, bert or gemma4, found '",
         gguf::printable(model), "'");
  }
  std::string pre = pre_override;
  if (pre.empty()) pre = metadata.find_string("tokenizer.ggml.pre").value_or("");
  if (pre.empty() && model == "gemma4") pre = "gemma4";
  if (pre.empty()) {
    log_warn(file, ": tokenizer.ggml.pre is missing: assuming the rule 'default', which may split words ",
             "otherwise than the model was trained on; name the right one with --override-kv ",
             "tokenizer.ggml.pre=str:NAME");
    pre = "default";
  }
  std::unique_ptr<PreTokenizer> rule = PreTokenizer::find(pre);
  if (rule == nullptr) {
    std::string known;
    for (const std::string& name : PreTokenizer::names()) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorKind::kUnsupported, file, ": tokenizer.ggml.pre: unknown pre-tokenizer '", gguf::printable(pre),
         "'; force a known one with --override-kv tokenizer.ggml.pre=str:NAME (", known, ")");
  }
  std::unique_ptr<Vocabulary> vocab = load_vocabulary(metadata, rule->add_bos() || model == "gemma4");
  vocab->pre = pre;
  return make_bpe_tokenizer(std::move(vocab), std::move(rule), metadata);
}

Tokenizer::Tokenizer(std::unique_ptr<Vocabulary> vocab) : vocab_(std::move(vocab)) {}
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  const PromptPiece piece{std::string(text), parse_special};
  return encode(std::span(&piece, 1), add_special);
}

std::vector<int32_t> Tokenizer::encode(std::span<const PromptPiece> pieces, bool add_special) const {
  const SpecialTokens& s = vocab_->special;
  std::vector<int32_t> out;
  if (add_special && s.add_bos) out.push_back(s.bos);
  WordCache cache;
  bool at_start = true;
  for (const PromptPiece& piece : pieces) {
    const std::string_view text = piece.text;
    const auto encode_between = [&](size_t begin, size_t end) {
      if (begin == end) return;
      encode_text(text.substr(begin, end - begin), at_start, cache, out);
      at_start = false;
    };
    size_t pos = 0;
    const SpecialMatcher& matcher = piece.parse_special ? vocab_->control_and_user : vocab_->user_only;
    for (const SpecialMatcher::Match& match : matcher.find(text)) {
      encode_between(pos, match.pos);
      out.push_back(match.id);
      at_start = true;
      pos = match.pos + match.length;
    }
    encode_between(pos, text.size());
  }
  if (add_special && s.add_sep) out.push_back(s.sep);
  if (add_special && s.add_eos) out.push_back(s.eos);
  return out;
}

std::string Tokenizer::token_bytes(int32_t id, bool special) const {
  const std::string_view text = vocab_->texts[id];
  switch (vocab_->types[static_cast<size_t>(id)]) {
    case TokenType::kControl:
    case TokenType::kUnknown:
    case TokenType::kUnused:
      return special ? std::string(text) : "";
    case TokenType::kUserDefined:
      return std::string(text);
    case TokenType::kByte:
      if (const std::optional<uint8_t> byte = parse_byte_token(text)) return {static_cast<char>(*byte)};
      break;
    case TokenType::kNormal:
      break;
  }
  return vocab_->spelling == Spelling::kByteLevel ? bytes_of_byte_level(text) : with_spaces(text);
}

std::string Tokenizer::decode_next(int32_t id, bool special, bool& at_start) const {
  std::string bytes = token_bytes(id, special);
  const TokenType type = vocab_->types[static_cast<size_t>(id)];
  if (type == TokenType::kControl || type == TokenType::kUserDefined) {
    at_start = true;
  } else if (!bytes.empty()) {
    if (at_start && vocab_->drop_leading_space && bytes[0] == ' ') bytes.erase(0, 1);
    at_start = false;
  }
  return bytes;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string out;
  bool at_start = true;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      fail(ErrorKind::kInvalidInput, "token ", id, " is outside the vocabulary of ", vocab_size(), " tokens");
    }
    out += decode_next(id, special, at_start);
  }
  return out;
}

std::string_view Tokenizer::token_text(int32_t id) const { return vocab_->texts[id]; }

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
  const int32_t id = vocab_->texts.find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

int32_t Tokenizer::vocab_size() const { return vocab_->size(); }
TokenType Tokenizer::type(int32_t id) const { return vocab_->types[static_cast<size_t>(id)]; }
const SpecialTokens& Tokenizer::special() const { return vocab_->special; }
bool Tokenizer::is_end_of_generation(int32_t id) const {
  return id >= 0 && id < vocab_size() && vocab_->is_eog[static_cast<size_t>(id)];
}
std::span<const int32_t> Tokenizer::end_of_generation_ids() const { return vocab_->eog; }
std::span<const int32_t> Tokenizer::suppressed() const { return vocab_->suppressed; }
const std::string& Tokenizer::model_name() const { return vocab_->model; }
const std::string& Tokenizer::pre_name() const { return vocab_->pre; }

}  // namespace loci
