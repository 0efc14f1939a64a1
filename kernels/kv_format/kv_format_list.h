// The KV formats, one line each, and the dispatch from the run-time tag to the format's type.
// A format's struct gives kFormat, kName and, from one of the bases in kv_tile.h, kBlock (channels that share a scale),
// tile_bytes, read_k, read_v, write_k, write_v.
#pragma once
#include "kernels/kv_format/bf16.h"
#include "kernels/kv_format/f16.h"
#include "kernels/kv_format/f32.h"
#include "kernels/kv_format/kv_layer.h"
#include "kernels/kv_format/q4_0.h"
#include "kernels/kv_format/q8_0.h"

#define LOCI_FOR_EACH_KV_FORMAT(X) \
  X(KvF32)                         \
  X(KvF16)                         \
  X(KvBF16)                        \
  X(KvQ8_0)                        \
  X(KvQ4_0)

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

}  // namespace loci
