// KV format f32: values as they are. 4 bytes each.
#pragma once
#include "kernels/hd.h"
#include "kernels/kv_format/kv_tile.h"

namespace loci {

struct KvF32 : PlainKvTile<KvF32> {
  using Code = float;
  static constexpr KvFormat kFormat = KvFormat::kF32;
  static constexpr const char* kName = "f32";
  LOCI_HD static float decode(Code code) { return code; }
  LOCI_HD static Code encode(float value) { return value; }
};

}  // namespace loci
