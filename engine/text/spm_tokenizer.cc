// "llama": SentencePiece-style BPE with scores. The sentencepiece library does the merging when it can hold the
// vocabulary in bounded memory; SpmMerger (spm_merger.h), the same rule written plainly, does it otherwise.
#include <cstring>

#include <sentencepiece_processor.h>

#include "engine/text/spm_merger.h"
#include "engine/text/unicode.h"
#include "engine/text/vocabulary.h"
#include "engine/text/word_cache.h"
#include "kernels/log.h"

namespace loci {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// The library's tables take several times the vocabulary's size: 80 MiB and 0.2 s for Gemma's 262,144 tokens.
constexpr int32_t kMostLibraryTokens = 1 << 16;

// Protocol-buffer wire format, as far as sentencepiece's ModelProto needs it.
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_int(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field << 3 | 5);
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  out.append(bytes, 4);
}

// Numbers of sentencepiece's enums and fields.
constexpr uint64_t kPieceNormal = 1, kPieceUnknown = 2, kPieceControl = 3, kPieceUnused = 5, kPieceByte = 6;
constexpr uint64_t kModelBpe = 2;

void put_piece(std::string& out, std::string_view text, float score, uint64_t type) {
  size_t length_bytes = 1;
  for (size_t rest = text.size() >> 7; rest != 0; rest >>= 7) ++length_bytes;
  put_varint(out, 1 << 3 | 2);
  put_varint(out, 1 + length_bytes + text.size() + 5 + 2);
  put_bytes(out, 1, text);
  put_float(out, 2, score);
  put_int(out, 3, type);
}

class SpmTokenizer final : public Tokenizer {
 public:
  explicit SpmTokenizer(std::unique_ptr<Vocabulary> vocab) : Tokenizer(std::move(vocab)), merger_(*vocab_) {
    load_library();
  }

 protected:
  void encode_text(std::string_view text, bool at_start, WordCache& cache, std::vector<int32_t>& out) const override;

 private:
  void load_library();
  std::string model_proto() const;
  void encode_valid(std::string_view text, WordCache& cache, std::vector<int32_t>& out) const;
  void encode_segment(std::string_view text, std::vector<int32_t>& out) const;

  SpmMerger merger_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> library_;  // null: merger_ serves
};

// The library wants unique, non-empty pieces and exactly one unknown token. A token that text can never become
// (control, unknown, a repeated or empty spelling) is given to it as a control piece under a name that is not UTF-8
// and so matches nothing; the unknown piece is an extra one at the end, never met because every byte has a token.
std::string SpmTokenizer::model_proto() const {
  std::string proto;
  proto.reserve(static_cast<size_t>(vocab_->size()) * 32);
  for (int32_t id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->texts[id];
    const float score = vocab_->scores[static_cast<size_t>(id)];
    const TokenType type = vocab_->types[static_cast<size_t>(id)];
    if (type == TokenType::kByte) {
      put_piece(proto, text, score, kPieceByte);
    } else if (merger_.is_mergeable(id)) {
      put_piece(proto, text, score, type == TokenType::kUnused ? kPieceUnused : kPieceNormal);
    } else {
      put_piece(proto, std::string("\xFF").append(std::to_string(id)), score, kPieceControl);
    }
  }
  put_piece(proto, "\xFFunknown", 0, kPieceUnknown);
  std::string trainer;
  put_int(trainer, 3, kModelBpe);
  put_int(trainer, 35, 1);  // byte_fallback
  put_bytes(proto, 2, trainer);
  std::string normalizer;
  put_bytes(normalizer, 1, "identity");
  put_int(normalizer, 3, 0);  // add_dummy_prefix: encode_text() puts the space itself
  put_int(normalizer, 4, 0);  // remove_extra_whitespaces
  put_int(normalizer, 5, 1);  // escape_whitespaces: space to U+2581
  put_bytes(proto, 3, normalizer);
  return proto;
}

void SpmTokenizer::load_library() {
  // Without all byte tokens in the library's spelling, or without a token for the space mark, its fallback differs
  // from ours (and takes quadratic time on long unknown runs).
  if (vocab_->size() > kMostLibraryTokens) return;
  if (!merger_.has_canonical_bytes() || !merger_.is_mergeable(vocab_->texts.find(kSpaceMark))) return;
  auto library = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const sentencepiece::util::Status status = library->LoadFromSerializedProto(model_proto());
  if (status.ok()) {
    library_ = std::move(library);
  } else {
    log_debug(vocab_->file, ": sentencepiece refuses the vocabulary (", status.ToString(),
              "); using the built-in rule");
  }
}

void SpmTokenizer::encode_segment(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<int> ids;
  if (library_ != nullptr && library_->Encode({text.data(), text.size()}, &ids).ok()) {
    out.insert(out.end(), ids.begin(), ids.end());
  } else {
    merger_.encode(text, out);
  }
}

// Segments merge independently, so that one met before (in most text, most words) is copied.
void SpmTokenizer::encode_valid(std::string_view text, WordCache& cache, std::vector<int32_t>& out) const {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = merger_.segment_end(text, begin);
    cache.append(text.substr(begin, end - begin), out,
                 [this](std::string_view segment, std::vector<int32_t>& ids) { encode_segment(segment, ids); });
    begin = end;
  }
}

void SpmTokenizer::encode_text(std::string_view text, bool at_start, WordCache& cache,
                               std::vector<int32_t>& out) const {
  bool prefix = at_start && vocab_->special.add_space_prefix;
  const auto encode_stretch = [&](size_t begin, size_t end) {
    std::string_view stretch = text.substr(begin, end - begin);
    if (prefix) {
      // The prefix joins the first segment, which is otherwise the same: there is no border after a space.
      const std::string_view first = stretch.substr(0, stretch.empty() ? 0 : merger_.segment_end(stretch, 0));
      encode_segment(std::string(" ").append(first), out);
      stretch.remove_prefix(first.size());
      prefix = false;
    }
    encode_valid(stretch, cache, out);
  };
  // Bytes that are not UTF-8 become byte tokens; what stands between them is merged.
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const unicode::Decoded d = unicode::decode(text, pos);
    if (!d.valid) {
      encode_stretch(begin, pos);
      merger_.emit_bytes(text.substr(pos, d.length), out);
      begin = pos + d.length;
    }
    pos += d.length;
  }
  encode_stretch(begin, text.size());
}

}  // namespace

std::unique_ptr<Tokenizer> make_spm_tokenizer(std::unique_ptr<Vocabulary> vocab) {
  return std::make_unique<SpmTokenizer>(std::move(vocab));
}

}  // namespace loci
