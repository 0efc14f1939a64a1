// KV format bf16: the upper half of an f32, round to nearest even. 2 bytes each.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/kv_format/kv_tile.h"
#include "kernels/quant/half.h"

namespace loci {

struct KvBF16 : PlainKvTile<KvBF16> {
  using Code = uint16_t;
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr const char* kName = "bf16";
  LOCI_HD static float decode(Code code) { return quant::bfloat_to_float(code); }
  LOCI_HD static Code encode(float value) { return quant::float_to_bfloat(value); }
};

}  // namespace loci
