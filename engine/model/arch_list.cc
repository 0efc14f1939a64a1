// The known architectures, one line each, and what is done alike for all of them.
#include <algorithm>

#include "engine/model/arch.h"
#include "engine/model/archs/archs.h"
#include "gguf/printable.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr ArchEntry kArchs[] = {
    {"llama", archs::llama},
    {"qwen2", archs::qwen2},
    {"qwen3", archs::qwen3},
    {"gemma3", archs::gemma3},
};

}  // namespace

std::span<const ArchEntry> arch_list() { return kArchs; }

ArchSpec read_arch(const gguf::Metadata& metadata) {
  const std::string type = metadata.find_string("general.type").value_or("model");
  if (type != "model") {
    fail(ErrorKind::kInvalidInput, metadata.file(), ": general.type: expected 'model', found '", gguf::printable(type),
         "': this file is no model that can be run by itself");
  }
  const std::string name = metadata.require_string("general.architecture");
  std::string known;
  for (const ArchEntry& entry : kArchs) {
    if (entry.name == name) return entry.read(metadata);
    known += str(known.empty() ? "" : ", ", entry.name);
  }
  fail(ErrorKind::kUnsupported, metadata.file(), ": general.architecture: expected one of ", known, "; found '",
       gguf::printable(name), "'");
}

int ArchSpec::max_heads() const {
  return std::max_element(layers.begin(), layers.end(), [](auto& a, auto& b) { return a.n_heads < b.n_heads; })
      ->n_heads;
}

int ArchSpec::max_head_dim() const {
  return std::max_element(layers.begin(), layers.end(), [](auto& a, auto& b) { return a.head_dim < b.head_dim; })
      ->head_dim;
}

int ArchSpec::max_ffn_dim() const {
  return std::max_element(layers.begin(), layers.end(), [](auto& a, auto& b) { return a.ffn_dim < b.ffn_dim; })
      ->ffn_dim;
}

}  // namespace loci
