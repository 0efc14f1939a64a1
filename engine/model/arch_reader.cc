#include "engine/model/arch_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gguf/printable.h"
#include "kernels/error.h"
#include "kernels/log.h"

namespace loci {
namespace {

// Upper limits: far above any published model, low enough that products of two of them stay within 64 bits.
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxContext = int64_t{1} << 30;  // positions are int32
constexpr int64_t kMaxVocab = int64_t{1} << 28;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

ArchReader::ArchReader(const gguf::Metadata& metadata)
    : metadata_(metadata), arch_(metadata.require_string("general.architecture")) {
  n_blocks_ = static_cast<int>(integer("block_count", 1, kMaxLayers));
  n_layers_ = n_blocks_ - static_cast<int>(integer("nextn_predict_layers", 0, n_blocks_ - 1, 0));
}

std::string ArchReader::key(std::string_view suffix) const { return str(arch_, ".", suffix); }

void ArchReader::refuse(std::string_view suffix, std::string_view expected, std::string_view found) const {
  fail(ErrorKind::kInvalidInput, metadata_.file(), ": ", key(suffix), ": expected ", expected, ", found ", found);
}

int64_t ArchReader::integer(std::string_view suffix, int64_t low, int64_t high) const {
  const int64_t value = metadata_.require_int(key(suffix));
  if (value < low || value > high) refuse(suffix, str("a whole number from ", low, " to ", high), str(value));
  return value;
}

int64_t ArchReader::integer(std::string_view suffix, int64_t low, int64_t high, int64_t missing) const {
  return has(suffix) ? integer(suffix, low, high) : missing;
}

std::vector<int64_t> ArchReader::per_layer(std::string_view suffix, int64_t low, int64_t high) const {
  const gguf::Value* value = metadata_.find(key(suffix));
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::kArray) {
    return std::vector<int64_t>(static_cast<size_t>(n_blocks_), integer(suffix, low, high));
  }
  const std::optional<std::vector<int64_t>> values = metadata_.find_ints(key(suffix));
  if (values->size() != static_cast<size_t>(n_blocks_)) {
    refuse(suffix, str("one number or one for each of the ", n_blocks_, " blocks"), str(values->size(), " numbers"));
  }
  for (size_t layer = 0; layer < values->size(); ++layer) {
    const int64_t v = (*values)[layer];
    if (v < low || v > high) {
      refuse(suffix, str("whole numbers from ", low, " to ", high), str(v, " for block ", layer));
    }
  }
  return *values;
}

double ArchReader::positive(std::string_view suffix, double high) const {
  const std::optional<double> value = metadata_.find_float(key(suffix));
  if (!value) {
    fail(ErrorKind::kInvalidInput, metadata_.file(), ": ", key(suffix),
         ": expected a number above 0, found no such key");
  }
  if (!std::isfinite(*value) || *value <= 0 || *value > high) {
    refuse(suffix, str("a number above 0, at most ", number(high)), number(*value));
  }
  return *value;
}

double ArchReader::positive(std::string_view suffix, double high, double missing) const {
  return has(suffix) ? positive(suffix, high) : missing;
}

double ArchReader::positive_or_off(std::string_view suffix, double high) const {
  return metadata_.find_float(key(suffix)).value_or(0) == 0 ? 0 : positive(suffix, high);
}

double ArchReader::freq_base(std::string_view suffix, double missing) const {
  const double base = positive(suffix, 1e15, missing);
  if (base < 1) refuse(suffix, "a number of at least 1", number(base));
  return base;
}

RopeSpec ArchReader::rope(int head_dim, int64_t n_ctx_train) const {
  RopeSpec rope;
  rope.n_rot = static_cast<int>(integer("rope.dimension_count", 1, kMaxHeadDim, head_dim));
  if (rope.n_rot > head_dim || rope.n_rot % 2 != 0) {
    if (!has("rope.dimension_count")) refuse("attention.key_length", "an even head size", str(head_dim));
    refuse("rope.dimension_count", str("an even number, at most the head size of ", head_dim), str(rope.n_rot));
  }
  rope.freq_base = freq_base("rope.freq_base", 10000);
  rope.original_ctx = integer("rope.scaling.original_context_length", 1, kMaxContext, n_ctx_train);
  const std::string type = text("rope.scaling.type").value_or("linear");
  const char* factor_key = has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  // Some converters write a factor of 0 for "no scaling".
  const double factor = metadata_.find_float(key(factor_key)) == 0.0 ? 1 : positive(factor_key, 1e6, 1);
  if (type == "none") return rope;
  if (type != "linear" && type != "yarn") {
    fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key("rope.scaling.type"),
         ": expected none, linear or yarn, found '", gguf::printable(type), "'");
  }
  rope.freq_scale = 1 / factor;
  rope.attn_factor = positive("rope.scaling.attn_factor", 1e3, 1);
  if (type == "yarn") {
    if (has("rope.scaling.yarn_log_multiplier") &&
        metadata_.find_float(key("rope.scaling.yarn_log_multiplier")) != 0.0) {
      fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key("rope.scaling.yarn_log_multiplier"),
           ": this architecture is supported without it only");
    }
    rope.ext_factor = positive("rope.scaling.yarn_ext_factor", 1e3, 1);
    rope.attn_factor *= positive("rope.scaling.yarn_attn_factor", 1e3, 1);
    rope.beta_fast = positive("rope.scaling.yarn_beta_fast", 1e6, 32);
    rope.beta_slow = positive("rope.scaling.yarn_beta_slow", 1e6, 1);
  }
  return rope;
}

ArchSpec ArchReader::common() const {
  ArchSpec spec;
  spec.name = arch_;
  spec.n_layers_file = n_blocks_;
  if (integer("expert_count", 0, 1 << 20, 0) > 0) {
    fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key("expert_count"), ": expected 0, found ",
         integer("expert_count", 0, 1 << 20), ": mixture-of-experts models are not supported");
  }
  for (const char* multiplier : {"residual_scale", "logit_scale"}) {
    const double value = positive(multiplier, 1e6, 1);
    if (value != 1) {
      fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key(multiplier), ": expected 1, found ", number(value),
           ": this multiplier is not supported");
    }
  }

  spec.dim = integer("embedding_length", 1, kMaxWidth);
  spec.n_ctx_train = integer("context_length", 1, kMaxContext);
  spec.norm_eps = static_cast<float>(positive("attention.layer_norm_rms_epsilon", 1));
  if (spec.norm_eps <= 0) refuse("attention.layer_norm_rms_epsilon", "a number above 0 in f32", "0");
  spec.embedding_scale = static_cast<float>(positive("embedding_scale", 1e6, 1));
  spec.attn_softcap = static_cast<float>(positive_or_off("attn_logit_softcapping", 1e6));
  spec.final_softcap = static_cast<float>(positive_or_off("final_logit_softcapping", 1e6));

  // The token list decides; a differing {A}.vocab_size is only a claim about it.
  const gguf::Value* tokens = metadata_.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->array_size() > 0) {
    spec.vocab_size = static_cast<int64_t>(tokens->array_size());
    const int64_t claimed = integer("vocab_size", 1, kMaxVocab, spec.vocab_size);
    if (claimed != spec.vocab_size) {
      log_warn(metadata_.file(), ": ", key("vocab_size"), " is ", claimed, " but tokenizer.ggml.tokens holds ",
               spec.vocab_size, "; using the latter");
    }
  } else {
    spec.vocab_size = integer("vocab_size", 1, kMaxVocab);
  }
  if (spec.vocab_size > kMaxVocab) {
    fail(ErrorKind::kInvalidInput, metadata_.file(), ": tokenizer.ggml.tokens: expected at most ", kMaxVocab,
         " tokens, found ", spec.vocab_size);
  }

  const std::vector<int64_t> heads = per_layer("attention.head_count", 1, kMaxHeads);
  if (heads.empty()) {
    fail(ErrorKind::kInvalidInput, metadata_.file(), ": ", key("attention.head_count"),
         ": expected a number, found no such key");
  }
  std::vector<int64_t> kv_heads = per_layer("attention.head_count_kv", 1, kMaxHeads);
  if (kv_heads.empty()) kv_heads = heads;
  const std::vector<int64_t> ffn = per_layer("feed_forward_length", 1, kMaxWidth);
  if (ffn.empty()) {
    fail(ErrorKind::kInvalidInput, metadata_.file(), ": ", key("feed_forward_length"),
         ": expected a number, found no such key");
  }
  const bool split_evenly = spec.dim % heads[0] == 0;
  const int64_t head_dim = integer("attention.key_length", 1, kMaxHeadDim, split_evenly ? spec.dim / heads[0] : 0);
  if (head_dim == 0) {
    refuse("attention.head_count", str("a divisor of embedding_length ", spec.dim, ", as key_length is not given"),
           str(heads[0]));
  }
  const int64_t value_dim = integer("attention.value_length", 1, kMaxHeadDim, head_dim);
  if (value_dim != head_dim) {
    fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key("attention.value_length"), ": expected the key length ",
         head_dim, ", found ", value_dim);
  }
  spec.ropes.push_back(rope(static_cast<int>(head_dim), spec.n_ctx_train));
  const double scale = positive("attention.scale", 1e3, 1 / std::sqrt(static_cast<double>(head_dim)));
  for (int layer = 0; layer < n_layers_; ++layer) {
    const auto i = static_cast<size_t>(layer);
    if (heads[i] % kv_heads[i] != 0) {
      refuse("attention.head_count_kv", str("a divisor of the ", heads[i], " query heads"),
             str(kv_heads[i], " for block ", layer));
    }
    if (heads[i] * head_dim > kMaxWidth) {
      refuse("attention.head_count", str("at most ", kMaxWidth / head_dim, " heads of size ", head_dim), str(heads[i]));
    }
    spec.layers.push_back({.n_heads = static_cast<int>(heads[i]),
                           .n_kv_heads = static_cast<int>(kv_heads[i]),
                           .head_dim = static_cast<int>(head_dim),
                           .ffn_dim = static_cast<int>(ffn[i]),
                           .scale = static_cast<float>(scale)});
  }
  return spec;
}

void ArchReader::apply_window(ArchSpec& spec, int window, const std::vector<bool>& windowed,
                              double missing_base) const {
  for (const char* suffix : {"attention.key_length_swa", "attention.value_length_swa"}) {
    const int64_t head_dim = spec.layers[0].head_dim;
    if (integer(suffix, 1, kMaxHeadDim, head_dim) != head_dim) {
      fail(ErrorKind::kUnsupported, metadata_.file(), ": ", key(suffix),
           ": expected the head size of the other layers, ", head_dim, ", found ", integer(suffix, 1, kMaxHeadDim));
    }
  }
  RopeSpec local;
  local.n_rot = static_cast<int>(integer("rope.dimension_count_swa", 1, kMaxHeadDim, spec.ropes[0].n_rot));
  if (local.n_rot > spec.layers[0].head_dim || local.n_rot % 2 != 0) {
    refuse("rope.dimension_count_swa", str("an even number, at most the head size of ", spec.layers[0].head_dim),
           str(local.n_rot));
  }
  local.freq_base = freq_base("rope.freq_base_swa", missing_base);
  local.overridable = false;
  const int index = static_cast<int>(spec.ropes.size());
  spec.ropes.push_back(local);
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    if (!windowed[layer]) continue;
    spec.layers[layer].window = window;
    spec.layers[layer].rope = index;
  }
}

}  // namespace loci
