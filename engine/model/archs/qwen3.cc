// qwen3: as qwen2 without biases, with an RMS norm of each head of q and k before rope.
#include "engine/model/arch_reader.h"
#include "engine/model/archs/archs.h"

namespace loci::archs {

ArchSpec qwen3(const gguf::Metadata& metadata) {
  ArchSpec spec = ArchReader(metadata).common();
  spec.pairing = RopePairing::kHalfSplit;
  spec.qk_norm = Presence::kRequired;
  return spec;
}

}  // namespace loci::archs
