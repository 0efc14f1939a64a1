// qwen2: Qwen 1.5, 2 and 2.5. Biases on q, k and v; rotation of half-split pairs.
#include "engine/model/arch_reader.h"
#include "engine/model/archs/archs.h"

namespace loci::archs {

ArchSpec qwen2(const gguf::Metadata& metadata) {
  ArchSpec spec = ArchReader(metadata).common();
  spec.pairing = RopePairing::kHalfSplit;
  spec.qkv_bias = Presence::kRequired;
  return spec;
}

}  // namespace loci::archs
