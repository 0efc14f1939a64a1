#include "engine/text/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "gguf/printable.h"
#include "kernels/error.h"
#include "kernels/log.h"

namespace loci {
namespace {

using gguf::Metadata;

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

// Texts that end a generation wherever they stand in a vocabulary.
constexpr std::string_view kEogTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};
constexpr std::string_view kEotTexts[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"};

void load_texts(Vocabulary& vocab, const Metadata& metadata) {
  const auto tokens = metadata.find_strings(key("tokens"));
  if (!tokens) fail(ErrorKind::kInvalidInput, vocab.file, ": missing key ", key("tokens"));
  if (tokens->empty()) fail(ErrorKind::kInvalidInput, vocab.file, ": ", key("tokens"), ": expected tokens, found none");
  if (tokens->size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4)) {
    fail(ErrorKind::kUnsupported, vocab.file, ": ", key("tokens"), ": ", tokens->size(), " tokens are too many");
  }
  size_t bytes = 0;
  for (const std::string_view token : *tokens) bytes += token.size();
  vocab.texts.reserve(tokens->size(), bytes);
  for (const std::string_view token : *tokens) vocab.texts.add(token);
  vocab.types.assign(tokens->size(), TokenType::kNormal);
}

// An array that runs beside the tokens must not be shorter; what is longer is ignored, and said so.
void check_length(const Vocabulary& vocab, std::string_view name, size_t found) {
  const size_t expected = static_cast<size_t>(vocab.size());
  if (found < expected) {
    fail(ErrorKind::kInvalidInput, vocab.file, ": ", key(name), ": expected ", expected,
         " entries, one per token, found ", found);
  }
  if (found > expected) {
    log_warn(vocab.file, ": ", key(name), ": expected ", expected, " entries, found ", found, "; the rest is ignored");
  }
}

// True when the file has the array.
bool load_types(Vocabulary& vocab, const Metadata& metadata) {
  const std::optional<std::vector<int64_t>> types = metadata.find_ints(key("token_type"));
  if (!types) return false;
  check_length(vocab, "token_type", types->size());
  size_t unknown = 0;
  for (size_t i = 0; i < vocab.types.size(); ++i) {
    const int64_t type = (*types)[i];
    if (type >= 1 && type <= 6) {
      vocab.types[i] = static_cast<TokenType>(type);
    } else if (type != 0) {  // 0 is what old converters wrote for "normal"
      ++unknown;
    }
  }
  if (unknown > 0) {
    log_warn(vocab.file, ": ", key("token_type"), ": ", unknown, " tokens of a type outside 1..6 are taken as normal");
  }
  return true;
}

void load_scores(Vocabulary& vocab, const Metadata& metadata) {
  const std::optional<std::vector<double>> scores = metadata.find_floats(key("scores"));
  if (!scores) fail(ErrorKind::kInvalidInput, vocab.file, ": missing key ", key("scores"));
  check_length(vocab, "scores", scores->size());
  vocab.scores.resize(vocab.types.size());
  for (size_t i = 0; i < vocab.scores.size(); ++i) {
    if (std::isnan((*scores)[i])) {
      fail(ErrorKind::kInvalidInput, vocab.file, ": ", key("scores"), ": token ", i, " has the score NaN");
    }
    vocab.scores[i] = static_cast<float>((*scores)[i]);
  }
}

// The id stored under the first of `names` that the file has; -1 when absent or outside the vocabulary.
int32_t stored_id(const Vocabulary& vocab, const Metadata& metadata, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::optional<int64_t> id = metadata.find_int(key(name));
    if (!id) continue;
    if (*id >= 0 && *id < vocab.size()) return static_cast<int32_t>(*id);
    log_warn(vocab.file, ": ", key(name), ": id ", *id, " is outside the vocabulary of ", vocab.size(),
             " tokens and is ignored");
    return -1;
  }
  return -1;
}

// A customary id counts only when that token is what custom says.
int32_t default_id(const Vocabulary& vocab, int32_t id, std::initializer_list<std::string_view> texts) {
  if (id >= vocab.size()) return -1;
  return std::find(texts.begin(), texts.end(), vocab.texts[id]) != texts.end() ? id : -1;
}

int32_t first_found(const Vocabulary& vocab, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    const int32_t id = vocab.texts.find(text);
    if (id >= 0) return id;
  }
  return -1;
}

void load_special_ids(Vocabulary& vocab, const Metadata& metadata) {
  SpecialTokens& s = vocab.special;
  const auto has = [&](const char* name) { return metadata.has(key(name)); };
  s.bos = stored_id(vocab, metadata, {"bos_token_id"});
  s.eos = stored_id(vocab, metadata, {"eos_token_id"});
  s.eot = stored_id(vocab, metadata, {"eot_token_id"});
  s.eom = stored_id(vocab, metadata, {"eom_token_id"});
  s.unk = stored_id(vocab, metadata, {"unknown_token_id"});
  s.pad = stored_id(vocab, metadata, {"padding_token_id"});
  s.sep = stored_id(vocab, metadata, {"seperator_token_id", "separator_token_id"});
  s.cls = stored_id(vocab, metadata, {"cls_token_id"});
  s.mask = stored_id(vocab, metadata, {"mask_token_id"});
  s.fim_pre = stored_id(vocab, metadata, {"fim_pre_token_id", "prefix_token_id"});
  s.fim_suf = stored_id(vocab, metadata, {"fim_suf_token_id", "suffix_token_id"});
  s.fim_mid = stored_id(vocab, metadata, {"fim_mid_token_id", "middle_token_id"});
  s.fim_pad = stored_id(vocab, metadata, {"fim_pad_token_id"});
  s.fim_rep = stored_id(vocab, metadata, {"fim_rep_token_id"});
  s.fim_sep = stored_id(vocab, metadata, {"fim_sep_token_id"});

  if (vocab.model == "llama") {
    if (!has("bos_token_id")) s.bos = default_id(vocab, 1, {"<s>", "<bos>"});
    if (!has("eos_token_id")) s.eos = default_id(vocab, 2, {"</s>", "<eos>"});
    if (!has("unknown_token_id")) s.unk = default_id(vocab, 0, {"<unk>"});
  } else if (vocab.model == "bert") {
    if (!has("cls_token_id")) s.cls = default_id(vocab, 101, {"[CLS]"});
    if (!has("bos_token_id")) s.bos = s.cls;
    if (!has("seperator_token_id")) s.sep = default_id(vocab, 102, {"[SEP]"});
    if (!has("unknown_token_id")) s.unk = default_id(vocab, 100, {"[UNK]"});
    if (!has("padding_token_id")) s.pad = default_id(vocab, 0, {"[PAD]"});
    if (!has("mask_token_id")) s.mask = default_id(vocab, 103, {"[MASK]"});
  }

  if (s.eot < 0) {
    for (const std::string_view text : kEotTexts) {
      if ((s.eot = vocab.texts.find(text)) >= 0) break;
    }
  }
  if (s.eom < 0) s.eom = first_found(vocab, {"<|eom_id|>"});
  if (s.fim_pre < 0) {
    s.fim_pre = first_found(vocab, {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "\u2581<PRE>",
                                    "<\uFF5Cfim\u2581begin\uFF5C>"});
  }
  if (s.fim_suf < 0) {
    s.fim_suf = first_found(vocab, {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>", "\u2581<SUF>",
                                    "<\uFF5Cfim\u2581hole\uFF5C>"});
  }
  if (s.fim_mid < 0) {
    s.fim_mid = first_found(vocab, {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>", "\u2581<MID>",
                                    "<\uFF5Cfim\u2581end\uFF5C>"});
  }
  if (s.fim_pad < 0) s.fim_pad = first_found(vocab, {"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>"});
  if (s.fim_rep < 0) {
    s.fim_rep = first_found(vocab, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"});
  }
  if (s.fim_sep < 0) s.fim_sep = first_found(vocab, {"<|file_sep|>"});
}

void load_flags(Vocabulary& vocab, const Metadata& metadata, bool default_add_bos) {
  SpecialTokens& s = vocab.special;
  const auto has = [&](const char* name) { return metadata.has(key(name)); };
  const bool spm = vocab.model == "llama";
  const bool bert = vocab.model == "bert";
  s.add_bos = metadata.find_bool(key("add_bos_token")).value_or(default_add_bos);
  if (vocab.model == "gemma4") s.add_bos = true;  // its files say otherwise, but the model needs one
  s.add_eos = metadata.find_bool(key("add_eos_token")).value_or(false);
  s.add_sep = metadata.find_bool(key("add_sep_token")).value_or(bert);
  s.add_space_prefix = metadata.find_bool(key("add_space_prefix")).value_or(spm);
  const auto drop_flag = [&](bool& flag, int32_t id, const char* name) {
    if (!flag || id >= 0) return;
    flag = false;
    if (!has(name)) return;  // on by custom only
    log_warn(vocab.file, ": ", key(name), " is on, but the vocabulary has no such token; none is added");
  };
  drop_flag(s.add_bos, s.bos, "add_bos_token");
  drop_flag(s.add_eos, s.eos, "add_eos_token");
  drop_flag(s.add_sep, s.sep, "add_sep_token");
  if (!spm) s.add_space_prefix = false;
  vocab.drop_leading_space = s.add_space_prefix || bert;
}

// Files without token types: the byte tokens by their spelling, the special ids by their role.
void guess_types(Vocabulary& vocab) {
  if (vocab.spelling == Spelling::kSpaceMark) {
    for (int32_t id = 0; id < vocab.size(); ++id) {
      if (parse_byte_token(vocab.texts[id])) vocab.types[static_cast<size_t>(id)] = TokenType::kByte;
    }
  }
  const SpecialTokens& s = vocab.special;
  for (const int32_t id : {s.bos, s.eos, s.pad, s.sep, s.cls, s.mask}) {
    if (id >= 0) vocab.types[static_cast<size_t>(id)] = TokenType::kControl;
  }
  if (s.unk >= 0 && vocab.model == "llama") vocab.types[static_cast<size_t>(s.unk)] = TokenType::kUnknown;
}

// Tokens that end a generation, and those that were recognised by their text, become control tokens: ordinary text
// must not yield them. (llama.cpp does the same; it decides whether "</s>" in Gemma's or Qwen's vocabulary, where it
// is no control token, is one: docs/tokenizers.md.)
void collect_end_of_generation(Vocabulary& vocab) {
  const SpecialTokens& s = vocab.special;
  vocab.is_eog.assign(vocab.types.size(), false);
  const auto mark = [&](int32_t id) {
    if (id >= 0) vocab.is_eog[static_cast<size_t>(id)] = true;
  };
  const auto make_control = [&](int32_t id) {
    if (id >= 0) vocab.types[static_cast<size_t>(id)] = TokenType::kControl;
  };
  for (const std::string_view text : kEogTexts) {
    const int32_t id = vocab.texts.find(text);
    mark(id);
    make_control(id);
  }
  for (const int32_t id : {s.eos, s.eot, s.eom, s.fim_pad, s.fim_rep, s.fim_sep}) mark(id);
  for (const int32_t id : {s.eot, s.eom, s.fim_pre, s.fim_suf, s.fim_mid, s.fim_pad, s.fim_rep, s.fim_sep}) {
    make_control(id);
  }
  for (int32_t id = 0; id < vocab.size(); ++id) {
    if (vocab.is_eog[static_cast<size_t>(id)]) vocab.eog.push_back(id);
  }
}

void load_suppressed(Vocabulary& vocab, const Metadata& metadata) {
  const std::optional<std::vector<int64_t>> ids = metadata.find_ints(key("suppress_tokens"));
  if (!ids) return;
  for (const int64_t id : *ids) {
    if (id >= 0 && id < vocab.size()) {
      vocab.suppressed.push_back(static_cast<int32_t>(id));
    } else {
      log_warn(vocab.file, ": ", key("suppress_tokens"), ": id ", id, " is outside the vocabulary and is ignored");
    }
  }
}

void build_matchers(Vocabulary& vocab) {
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.types[static_cast<size_t>(id)];
    if (type == TokenType::kUserDefined) vocab.user_only.add(vocab.texts[id], id);
    if (type == TokenType::kUserDefined || type == TokenType::kControl || type == TokenType::kUnknown) {
      vocab.control_and_user.add(vocab.texts[id], id);
    }
  }
  vocab.user_only.build();
  vocab.control_and_user.build();
}

}  // namespace

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const int high = digit(text[3]), low = digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

std::unique_ptr<Vocabulary> load_vocabulary(const Metadata& metadata, bool default_add_bos) {
  auto vocab = std::make_unique<Vocabulary>();
  vocab->file = gguf::printable(metadata.file(), 4096);
  vocab->model = metadata.require_string(key("model"));
  vocab->spelling = vocab->model == "gpt2" ? Spelling::kByteLevel : Spelling::kSpaceMark;
  load_texts(*vocab, metadata);
  const bool has_types = load_types(*vocab, metadata);
  if (vocab->model == "llama") load_scores(*vocab, metadata);
  load_special_ids(*vocab, metadata);
  load_flags(*vocab, metadata, default_add_bos);
  if (!has_types) guess_types(*vocab);
  collect_end_of_generation(*vocab);
  load_suppressed(*vocab, metadata);
  build_matchers(*vocab);
  return vocab;
}

}  // namespace loci
