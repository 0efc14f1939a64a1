#include "main/quantize_plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "gguf/printable.h"
#include "kernels/error.h"
#include "kernels/quant/quant.h"

namespace loci::cli {

// Layers whose tensors of some role get a better type than the base.
enum class Where {
  kNowhere,
  kEverywhere,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kSpread,  // the first and last eighth, and every third layer between
};

struct Upgrade {
  Where where = Where::kNowhere;
  DType type = DType::kF32;
  Where else_where = Where::kNowhere;  // layers that `where` leaves out
  DType else_type = DType::kF32;
};

struct QuantMix {
  std::string_view name;
  int64_t file_type;
  DType base;
  Upgrade attn_v = {}, ffn_down = {}, attn_output = {}, attn_qkv = {};
};

namespace {

using enum DType;
using enum Where;

// The head, where it has no rule of its own, is Q6_K for every block type but Q8_0.
constexpr QuantMix kMixes[] = {
    {"F32", 0, kF32},
    {"F16", 1, kF16},
    {"BF16", 32, kBF16},
    {"Q8_0", 7, kQ8_0},
    {"Q6_K", 18, kQ6_K},
    {.name = "Q5_K_M",
     .file_type = 17,
     .base = kQ5_K,
     .attn_v = {kSpread, kQ6_K},
     .ffn_down = {kSpread, kQ6_K},
     .attn_qkv = {kEverywhere, kQ6_K}},
    {"Q5_K_S", 16, kQ5_K},
    {"Q5_1", 9, kQ5_1},
    {"Q5_0", 8, kQ5_0},
    {.name = "Q4_K_M",
     .file_type = 15,
     .base = kQ4_K,
     .attn_v = {kSpread, kQ6_K},
     .ffn_down = {kSpread, kQ6_K},
     .attn_qkv = {kEverywhere, kQ5_K}},
    {.name = "Q4_K_S",
     .file_type = 14,
     .base = kQ4_K,
     .attn_v = {kFirstFour, kQ5_K},
     .ffn_down = {kFirstEighth, kQ5_K}},
    {"Q4_1", 3, kQ4_1},
    {"Q4_0", 2, kQ4_0},
    {"IQ4_NL", 25, kIQ4_NL},
    {"IQ4_XS", 30, kIQ4_XS},
    {.name = "Q3_K_L",
     .file_type = 13,
     .base = kQ3_K,
     .attn_v = {kEverywhere, kQ5_K},
     .ffn_down = {kEverywhere, kQ5_K},
     .attn_output = {kEverywhere, kQ5_K},
     .attn_qkv = {kEverywhere, kQ4_K}},
    {.name = "Q3_K_M",
     .file_type = 12,
     .base = kQ3_K,
     .attn_v = {kFirstTwo, kQ5_K, kEverywhere, kQ4_K},
     .ffn_down = {kFirstSixteenth, kQ5_K, kEverywhere, kQ4_K},
     .attn_output = {kEverywhere, kQ4_K},
     .attn_qkv = {kEverywhere, kQ4_K}},
    {"Q3_K_S", 11, kQ3_K},
    {.name = "Q2_K",
     .file_type = 10,
     .base = kQ2_K,
     .attn_v = {kEverywhere, kQ3_K},  // Q4_K when few heads share it, see below
     .ffn_down = {kEverywhere, kQ3_K},
     .attn_output = {kEverywhere, kQ3_K},
     .attn_qkv = {kEverywhere, kQ3_K}},
    {.name = "Q2_K_S", .file_type = 21, .base = kQ2_K, .ffn_down = {kFirstEighth, kQ4_K}},
    {"MXFP4", 38, kMXFP4},
    {"TQ1_0", 36, kTQ1_0},
    {"TQ2_0", 37, kTQ2_0},
};

// Other spellings of a mix.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"MXFP4_MOE", "MXFP4"}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

bool covers(Where where, int64_t layer, int64_t n_layers) {
  switch (where) {
    case kNowhere:
      return false;
    case kEverywhere:
      return true;
    case kFirstTwo:
      return layer < 2;
    case kFirstFour:
      return layer < 4;
    case kFirstSixteenth:
      return layer < n_layers / 16;
    case kFirstEighth:
      return layer < n_layers / 8;
    case kSpread: {
      const int64_t eighth = n_layers / 8;
      return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
    }
  }
  return false;
}

DType upgraded(const Upgrade& rule, DType base, int64_t layer, int64_t n_layers) {
  if (covers(rule.where, layer, n_layers)) return rule.type;
  if (covers(rule.else_where, layer, n_layers)) return rule.else_type;
  return base;
}

// N of "blk.N.rest", and the rest; -1 and the whole name for tensors outside the layers.
struct LayerName {
  int64_t layer = -1;
  std::string_view role;
};
LayerName layer_name(std::string_view name) {
  if (name.starts_with("blk.")) {
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    if (error == std::errc() && layer >= 0 && end != name.data() + name.size() && *end == '.') {
      return {layer, name.substr(static_cast<size_t>(end + 1 - name.data()))};
    }
  }
  return {-1, name};
}

// Matrices that a block type may hold. What stays is small or sensitive: norms, biases, routers, frequencies.
bool is_quantizable(const TensorView& tensor) {
  const std::string_view role = layer_name(tensor.name).role;
  if (tensor.n_rows() == 1 || !role.ends_with(".weight")) return false;
  if (role.find("_norm") != std::string_view::npos) return false;
  constexpr std::string_view kKept[] = {"ffn_gate_inp", "rope_", "pos", "token_types", "ssm_conv1d", "attn_sinks"};
  return std::none_of(std::begin(kKept), std::end(kKept),
                      [&](std::string_view start) { return role.starts_with(start); });
}

// The 32-element type that takes over when a row is no multiple of 256.
DType smaller_block(DType type) {
  switch (type) {
    case kQ2_K:
    case kQ3_K:
    case kTQ1_0:
    case kTQ2_0:
      return kQ4_0;
    case kQ4_K:
      return kQ5_0;
    case kQ5_K:
      return kQ5_1;
    case kQ6_K:
      return kQ8_0;
    case kIQ4_XS:
      return kIQ4_NL;
    default:
      return type;
  }
}

class Planner {
 public:
  Planner(const gguf::File& file, const QuantMix& mix, const PlanOptions& options)
      : file_(file), mix_(mix), options_(options), has_head_(file.find("output.weight") != nullptr) {
    for (const TensorView& tensor : file.tensors()) {
      n_layers_ = std::max(n_layers_, layer_name(tensor.name).layer + 1);
    }
    const gguf::Metadata& metadata = file.metadata();
    const std::string arch = metadata.find_string("general.architecture").value_or("");
    const gguf::Value* heads = metadata.find(arch + ".attention.head_count");
    const gguf::Value* kv_heads = metadata.find(arch + ".attention.head_count_kv");
    const auto number = [](const gguf::Value* value) {
      const auto* integer = value != nullptr ? std::get_if<int64_t>(&value->data) : nullptr;
      return integer != nullptr ? *integer : int64_t{0};
    };
    if (number(kv_heads) > 0) heads_per_kv_head_ = number(heads) / number(kv_heads);
  }

  PlannedTensor plan(const TensorView& tensor) const {
    PlannedTensor planned{wanted(tensor), ""};
    fall_back(tensor, planned);
    check_source(tensor, planned.target);
    return planned;
  }

 private:
  bool is_head(const TensorView& tensor) const {
    return tensor.name == "output.weight" || (!has_head_ && tensor.name == "token_embd.weight");
  }

  // Before rows are looked at.
  DType wanted(const TensorView& tensor) const {
    const bool plain = traits(tensor.type).block_elements == 1;
    if (!is_quantizable(tensor)) {
      return tensor.type == kF16 || tensor.type == kBF16 || !plain ? kF32 : tensor.type;
    }
    if (options_.output && is_head(tensor)) return *options_.output;
    if (options_.token_embedding && tensor.name == "token_embd.weight") return *options_.token_embedding;
    const bool to_plain = traits(mix_.base).block_elements == 1;
    if (options_.pure || to_plain) return mix_.base;
    if (is_head(tensor)) return mix_.base == kQ8_0 ? kQ8_0 : kQ6_K;
    const auto [layer, role] = layer_name(tensor.name);
    if (layer < 0) return mix_.base;
    if (role.starts_with("attn_v.")) {
      const DType type = upgraded(mix_.attn_v, mix_.base, layer, n_layers_);
      return mix_.base == kQ2_K && heads_per_kv_head_ >= 4 ? kQ4_K : type;
    }
    if (role.starts_with("ffn_down")) return upgraded(mix_.ffn_down, mix_.base, layer, n_layers_);
    if (role.starts_with("attn_output.")) return upgraded(mix_.attn_output, mix_.base, layer, n_layers_);
    if (role.starts_with("attn_qkv.")) return upgraded(mix_.attn_qkv, mix_.base, layer, n_layers_);
    return mix_.base;
  }

  static void fall_back(const TensorView& tensor, PlannedTensor& planned) {
    const DType wanted = planned.target;
    if (tensor.row_length() % traits(wanted).block_elements == 0) return;
    planned.target = smaller_block(wanted);
    if (tensor.row_length() % traits(planned.target).block_elements != 0) planned.target = kF16;
    planned.note = str("rows of ", tensor.row_length(), " are no multiple of ", traits(wanted).block_elements, ": ",
                       loci::name(planned.target), " instead of ", loci::name(wanted));
  }

  void check_source(const TensorView& tensor, DType target) const {
    if (tensor.type == target) return;
    const std::string where = str(gguf::printable(file_.path(), 4096), ": tensor ", gguf::printable(tensor.name), ": ");
    if (!traits(tensor.type).can_dequantize) {
      fail(ErrorKind::kUnsupported, where, "type ", loci::name(tensor.type), " cannot be converted");
    }
    const bool lossless = traits(tensor.type).block_elements == 1 || tensor.type == kQ8_0;
    if (!lossless && !options_.allow_requantize) {
      fail(ErrorKind::kInvalidInput, where, "expected F32, F16, BF16 or Q8_0, found ", loci::name(tensor.type),
           "; quantizing twice loses quality: --allow-requantize does it all the same");
    }
  }

  const gguf::File& file_;
  const QuantMix& mix_;
  const PlanOptions& options_;
  bool has_head_;
  int64_t n_layers_ = 0;
  int64_t heads_per_kv_head_ = 1;
};

}  // namespace

const QuantMix* find_mix(std::string_view name) {
  for (const auto& [alias, target] : kAliases) {
    if (equal_ignoring_case(alias, name)) name = target;
  }
  for (const QuantMix& mix : kMixes) {
    if (equal_ignoring_case(mix.name, name)) return &mix;
  }
  return nullptr;
}

std::string mix_names() {
  std::string names;
  for (const QuantMix& mix : kMixes) names += str(names.empty() ? "" : ", ", mix.name);
  return names;
}

std::string_view name(const QuantMix& mix) { return mix.name; }
int64_t file_type(const QuantMix& mix) { return mix.file_type; }

std::vector<PlannedTensor> plan_quantization(const gguf::File& file, const QuantMix& mix, const PlanOptions& options) {
  const Planner planner(file, mix, options);
  std::vector<PlannedTensor> plan;
  for (const TensorView& tensor : file.tensors()) plan.push_back(planner.plan(tensor));
  return plan;
}

}  // namespace loci::cli
