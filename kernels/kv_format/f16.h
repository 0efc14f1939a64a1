// KV format f16: IEEE binary16, round to nearest even; values beyond 65504 become infinite. 2 bytes each.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/kv_format/kv_tile.h"
#include "kernels/quant/half.h"

namespace loci {

struct KvF16 : PlainKvTile<KvF16> {
  using Code = uint16_t;
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr const char* kName = "f16";
  LOCI_HD static float decode(Code code) { return quant::half_to_float(code); }
  LOCI_HD static Code encode(float value) { return quant::float_to_half(value); }
};

}  // namespace loci
