// llama: Llama 2 and 3, Mistral, SmolLM2, TinyLlama and many others. The converter has permuted the rows of q and k,
// so that adjacent pairs rotate. Llama 3.1 and later carry a divisor per frequency (rope_freqs.weight).
#include "engine/model/arch_reader.h"
#include "engine/model/archs/archs.h"

namespace loci::archs {

ArchSpec llama(const gguf::Metadata& metadata) {
  ArchSpec spec = ArchReader(metadata).common();
  spec.pairing = RopePairing::kAdjacent;
  spec.rope_freqs = true;
  return spec;
}

}  // namespace loci::archs
