// What can be said of a loaded model: names and sizes for people, a fingerprint for saved caches.
#pragma once
#include <cstdint>
#include <string>

#include "engine/model/arch.h"
#include "gguf/gguf.h"

namespace loci {

// "Q4_K - Medium" when the file type says so and the tensors agree; else the type that most weights have.
std::string quantization_text(const gguf::File& file);

// Metadata with the values of --override-kv ("TYPE:VALUE", TYPE one of int, float, bool, str) set.
// Throws Error naming the key and the fault.
gguf::Metadata with_overrides(const gguf::File& file, const EngineConfig& config);

// 64 bits that differ for models whose K/V differ: metadata, tensor table, the first bytes of every tensor, the
// ropes in use.
uint64_t fingerprint(const gguf::File& file, const gguf::Metadata& metadata, const ArchSpec& arch);

}  // namespace loci
