// The KV formats, one line each, and the dispatch from the run-time tag to the format's type.
// A format's struct gives: Code (one stored value), decode, encode, kFormat, kName.
#pragma once
#include "kernels/kv_format/bf16.h"
#include "kernels/kv_format/f16.h"
#include "kernels/kv_format/f32.h"
#include "kernels/kv_format/kv_layer.h"

#define LOCI_FOR_EACH_KV_FORMAT(X) \
  X(KvF32)                         \
  X(KvF16)                         \
  X(KvBF16)

namespace loci {

// Calls fn(Format{}) with the struct of `format`.
template <typename Fn>
LOCI_HD void visit_kv_format(KvFormat format, Fn&& fn) {
  switch (format) {
#define LOCI_KV_CASE(Format) \
  case Format::kFormat:      \
    fn(Format{});            \
    break;
    LOCI_FOR_EACH_KV_FORMAT(LOCI_KV_CASE)
#undef LOCI_KV_CASE
  }
}

// Where a value lies inside its tile, in codes. `token` is 0..15, `channel` 0..head_dim-1.
inline constexpr int kKvTileTokens = 16;
LOCI_HD int64_t k_tile_index(int token, int channel) { return int64_t{channel} * kKvTileTokens + token; }
LOCI_HD int64_t v_tile_index(int token, int channel, int head_dim) { return int64_t{token} * head_dim + channel; }

}  // namespace loci
