// The architectures' readers: GGUF metadata -> ArchSpec, one file each. Listed in arch_list.cc.
#pragma once
#include "engine/model/arch.h"

namespace loci::archs {

ArchSpec llama(const gguf::Metadata& metadata);
ArchSpec qwen2(const gguf::Metadata& metadata);
ArchSpec qwen3(const gguf::Metadata& metadata);
ArchSpec gemma3(const gguf::Metadata& metadata);

}  // namespace loci::archs
