#include "engine/kv/kv_formats.h"

#include "kernels/error.h"

namespace loci {

void check_kv_formats(const ArchSpec& arch, const KvConfig& config) {
  const auto check = [&](const char* flag, KvFormat format) {
    const int granule = kv_format_granule(format);
    for (const LayerSpec& layer : arch.layers) {
      if (layer.head_dim % granule == 0) continue;
      fail(ErrorKind::kUnsupported, flag, " ", name(format), ": expected a head dim that is a multiple of ", granule,
           ", found ", layer.head_dim, "; f16 or bf16 would do");
    }
  };
  check("-ctk", config.k_format);
  check("-ctv", config.v_format);
}

}  // namespace loci
