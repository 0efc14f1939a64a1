// gemma3: embeddings scaled by sqrt(dim), norms before and after each half block, q/k norms, GELU gating, and five
// sliding-window layers before each global one, with rope bases of their own.
#include <cmath>

#include "engine/model/arch_reader.h"
#include "engine/model/archs/archs.h"
#include "kernels/error.h"

namespace loci::archs {
namespace {

constexpr int64_t kPattern = 6;          // every sixth layer is global, where the file does not say
constexpr double kWindowedBase = 10000;  // rope base of windowed layers, likewise
constexpr int kLayersOf27B = 62;         // the one size whose scale is not 1 / sqrt(head_dim)

std::vector<bool> windowed_layers(const ArchReader& reader) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  const auto n_layers = static_cast<size_t>(reader.n_layers());
  std::vector<bool> windowed(n_layers);
  const gguf::Value* value = reader.metadata().find(reader.key(kKey));
  if (value != nullptr && value->type == gguf::ValueType::kArray) {
    const std::optional<std::vector<int64_t>> flags = reader.integers(kKey);
    if (flags->size() < n_layers) {
      reader.refuse(kKey, str("one flag for each of the ", n_layers, " layers"), str(flags->size()));
    }
    for (size_t i = 0; i < n_layers; ++i) windowed[i] = (*flags)[i] != 0;
    return windowed;
  }
  const auto pattern = static_cast<size_t>(reader.integer(kKey, 1, 512, kPattern));
  for (size_t i = 0; i < n_layers; ++i) windowed[i] = i % pattern < pattern - 1;
  return windowed;
}

}  // namespace

ArchSpec gemma3(const gguf::Metadata& metadata) {
  const ArchReader reader(metadata);
  ArchSpec spec = reader.common();
  spec.pairing = RopePairing::kHalfSplit;
  spec.activation = Activation::kGeluTanh;
  spec.qk_norm = Presence::kRequired;
  spec.post_norms = true;
  if (!reader.has("embedding_scale")) spec.embedding_scale = std::sqrt(static_cast<float>(spec.dim));
  if (!reader.has("attention.scale") && spec.layers.size() == kLayersOf27B) {
    for (LayerSpec& layer : spec.layers) {
      layer.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(spec.dim) / layer.n_heads));
    }
  }
  const auto window = static_cast<int>(reader.integer("attention.sliding_window", 0, 1 << 30, 0));
  if (window > 0) reader.apply_window(spec, window, windowed_layers(reader), kWindowedBase);
  return spec;
}

}  // namespace loci::archs
