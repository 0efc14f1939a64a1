// Which K/V formats a model's heads can be kept in.
#pragma once
#include "engine/config.h"
#include "engine/model/arch.h"

namespace loci {

// Throws Error(kUnsupported) naming flag, format and head dim when a layer's heads do not fill whole blocks.
void check_kv_formats(const ArchSpec& arch, const KvConfig& config);

}  // namespace loci
