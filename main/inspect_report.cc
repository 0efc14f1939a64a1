#include "main/inspect_report.h"

#include <algorithm>
#include <map>
#include <optional>

#include "engine/engine.h"
#include "engine/kv/kv_formats.h"
#include "engine/kv/kv_manager.h"
#include "engine/model/arch.h"
#include "engine/model_info.h"
#include "kernels/error.h"

namespace loci::cli {
namespace {

using nlohmann::ordered_json;

// The result of a look-up that a broken file may refuse; what is broken is told by "error".
template <typename Call>
auto attempt(const Call& call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (const Error&) {
    return std::nullopt;
  }
}

ordered_json text_or_null(const gguf::Metadata& metadata, const std::string& key) {
  const auto text = attempt([&] { return metadata.find_string(key); });
  return text && *text ? ordered_json(**text) : ordered_json();
}

ordered_json int_or_null(const gguf::Metadata& metadata, const std::string& key) {
  const auto number = attempt([&] { return metadata.find_int(key); });
  return number && *number ? ordered_json(**number) : ordered_json();
}

// One number when all layers agree, else a list with one entry per layer.
template <typename Member>
ordered_json per_layer(const ArchSpec& arch, Member member) {
  std::vector<int> values;
  for (const LayerSpec& layer : arch.layers) values.push_back(layer.*member);
  const bool same = std::all_of(values.begin(), values.end(), [&](int value) { return value == values[0]; });
  return same && !values.empty() ? ordered_json(values[0]) : ordered_json(values);
}

ordered_json sizes(const gguf::File& file, const std::optional<ArchSpec>& arch, const std::string& prefix) {
  int64_t n_params = 0;
  for (const TensorView& tensor : file.tensors()) n_params += tensor.n_elements();
  ordered_json out = {{"parameters", n_params}};
  if (arch) {
    out["layers"] = arch->layers.size();
    out["dim"] = arch->dim;
    out["heads"] = per_layer(*arch, &LayerSpec::n_heads);
    out["kv_heads"] = per_layer(*arch, &LayerSpec::n_kv_heads);
    out["head_dim"] = per_layer(*arch, &LayerSpec::head_dim);
    out["ffn_dim"] = per_layer(*arch, &LayerSpec::ffn_dim);
    out["vocab_size"] = arch->vocab_size;
  } else {  // as the file claims
    const gguf::Metadata& metadata = file.metadata();
    out["layers"] = int_or_null(metadata, prefix + "block_count");
    out["dim"] = int_or_null(metadata, prefix + "embedding_length");
    out["heads"] = int_or_null(metadata, prefix + "attention.head_count");
    out["kv_heads"] = int_or_null(metadata, prefix + "attention.head_count_kv");
    out["ffn_dim"] = int_or_null(metadata, prefix + "feed_forward_length");
    out["vocab_size"] = int_or_null(metadata, prefix + "vocab_size");
  }
  return out;
}

ordered_json rope(const ArchSpec& arch) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < arch.ropes.size(); ++i) {
    const RopeSpec& spec = arch.ropes[i];
    const auto n_layers = std::count_if(arch.layers.begin(), arch.layers.end(),
                                        [&](const LayerSpec& layer) { return layer.rope == static_cast<int>(i); });
    out.push_back({{"layers", n_layers},
                   {"dims", spec.n_rot},
                   {"pairing", arch.pairing == RopePairing::kAdjacent ? "adjacent" : "half-split"},
                   {"freq_base", spec.freq_base},
                   {"scaling", spec.ext_factor != 0   ? "yarn"
                               : spec.freq_scale != 1 ? "linear"
                                                      : "none"},
                   {"freq_scale", spec.freq_scale}});
  }
  return out;
}

ordered_json windows(const ArchSpec& arch) {
  std::map<int, int> layers_of;  // window -> layers
  for (const LayerSpec& layer : arch.layers) {
    if (layer.window > 0) ++layers_of[layer.window];
  }
  ordered_json out = ordered_json::array();
  for (const auto& [window, n_layers] : layers_of) out.push_back({{"tokens", window}, {"layers", n_layers}});
  return out;
}

ordered_json types(const gguf::File& file) {
  struct Sum {
    int64_t tensors = 0, bytes = 0, elements = 0;
  };
  std::map<DType, Sum> sums;
  for (const TensorView& tensor : file.tensors()) {
    Sum& sum = sums[tensor.type];
    ++sum.tensors;
    sum.bytes += tensor.n_bytes();
    sum.elements += tensor.n_elements();
  }
  ordered_json out = ordered_json::array();
  for (const auto& [type, sum] : sums) {
    out.push_back({{"type", name(type)}, {"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}});
  }
  return out;
}

ordered_json special_tokens(const Tokenizer& tokenizer) {
  const SpecialTokens& ids = tokenizer.special();
  const std::pair<const char*, int32_t> named[] = {
      {"bos", ids.bos},         {"eos", ids.eos},         {"eot", ids.eot},         {"eom", ids.eom},
      {"unk", ids.unk},         {"pad", ids.pad},         {"sep", ids.sep},         {"cls", ids.cls},
      {"mask", ids.mask},       {"fim_pre", ids.fim_pre}, {"fim_suf", ids.fim_suf}, {"fim_mid", ids.fim_mid},
      {"fim_pad", ids.fim_pad}, {"fim_rep", ids.fim_rep}, {"fim_sep", ids.fim_sep}};
  ordered_json out = ordered_json::object();
  for (const auto& [key, id] : named) {
    if (id >= 0) out[key] = {{"id", id}, {"text", tokenizer.token_text(id)}};
  }
  return out;
}

ordered_json tokenizer_part(const gguf::Metadata& metadata) {
  ordered_json out = {{"model", text_or_null(metadata, "tokenizer.ggml.model")},
                      {"pre", text_or_null(metadata, "tokenizer.ggml.pre")}};
  const gguf::Value* tokens = metadata.find("tokenizer.ggml.tokens");
  out["tokens"] = tokens != nullptr ? tokens->array_size() : 0;
  const gguf::Value* merges = metadata.find("tokenizer.ggml.merges");
  if (merges != nullptr) out["merges"] = merges->array_size();
  const auto tokenizer = attempt([&] { return Tokenizer::from_metadata(metadata); });
  if (!tokenizer) return out;
  out["special"] = special_tokens(**tokenizer);
  out["add_bos"] = (*tokenizer)->special().add_bos;
  out["add_eos"] = (*tokenizer)->special().add_eos;
  const auto ends = (*tokenizer)->end_of_generation_ids();
  out["end_of_generation"] = std::vector<int32_t>(ends.begin(), ends.end());
  return out;
}

ordered_json chat_templates(const gguf::Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  ordered_json out = ordered_json::array();
  for (const std::string& key : metadata.keys()) {
    if (!key.starts_with(kKey) || (key.size() > kKey.size() && key[kKey.size()] != '.')) continue;
    const auto source = attempt([&] { return metadata.find_string(key); });
    if (!source || !*source) continue;
    const std::string name = key.size() > kKey.size() ? key.substr(kKey.size() + 1) : "default";
    out.push_back({{"name", name}, {"bytes", (*source)->size()}});
  }
  return out;
}

// docs/gguf.md section 10: what this program holds while a model runs.
ordered_json memory(const gguf::File& file, const ArchSpec& arch, int64_t n_ctx, const KvConfig& kv) {
  check_kv_formats(arch, kv);
  if (n_ctx == 0) n_ctx = arch.n_ctx_train;
  int64_t weights = 0;
  for (const TensorView& tensor : file.tensors()) weights += tensor.n_bytes();
  EngineConfig config;
  config.n_ctx = n_ctx;
  config.kv = kv;
  const PoolNeeds needs = kv_pool_needs(kv_layer_shapes(arch, kv), config);
  const int64_t n_pages = (n_ctx + kv.page_size - 1) / kv.page_size;
  ordered_json out = {{"n_ctx", n_ctx},
                      {"cache_type_k", name(kv.k_format)},
                      {"cache_type_v", name(kv.v_format)},
                      {"weight_bytes", weights},
                      {"kv_bytes_per_token", (needs.page_bytes + needs.window_page_bytes) / kv.page_size},
                      {"kv_bytes", pool_bytes(needs, n_pages)},
                      {"logits_bytes_per_row", arch.vocab_size * int64_t{sizeof(float)}}};
  if (needs.window > 0) {
    out["kv_window_bytes_per_token"] = needs.window_page_bytes / kv.page_size;
    out["kv_window_tokens"] = window_pages_beside(needs, n_pages) * kv.page_size;
  }
  return out;
}

}  // namespace

ordered_json inspect_report(const gguf::File& file, int64_t n_ctx, const KvConfig& kv) {
  const gguf::Metadata& metadata = file.metadata();
  ordered_json out = {{"path", file.path()}, {"loadable", true}};
  std::vector<std::string> unused;
  try {
    unused = check_loadable(file);
  } catch (const Error& error) {
    out["loadable"] = false;
    out["error"] = error.what();
  }
  const auto arch = attempt([&] { return read_arch(metadata); });
  const ordered_json architecture = text_or_null(metadata, "general.architecture");

  out["name"] = text_or_null(metadata, "general.name");
  out["architecture"] = architecture;
  out["type"] = text_or_null(metadata, "general.type");
  out["quantization"] = attempt([&] { return quantization_text(file); }).value_or("unknown");
  out["format"] = {{"version", file.version()},
                   {"parts", file.part_paths().size()},
                   {"bytes", file.total_bytes()},
                   {"keys", metadata.keys().size()},
                   {"tensors", file.tensors().size()}};
  out["sizes"] = sizes(file, arch, architecture.is_string() ? architecture.get<std::string>() + "." : "");
  out["types"] = types(file);
  if (arch) {
    out["context_length"] = arch->n_ctx_train;
    out["rope"] = rope(*arch);
    out["windows"] = windows(*arch);
  }
  out["tokenizer"] = tokenizer_part(metadata);
  out["chat_templates"] = chat_templates(metadata);
  if (arch) out["memory"] = memory(file, *arch, n_ctx, kv);
  out["oddities"] = std::vector<std::string>(file.oddities().begin(), file.oddities().end());
  out["unused_tensors"] = unused;
  return out;
}

}  // namespace loci::cli
