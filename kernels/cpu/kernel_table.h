// KernelTable: what one instruction set offers, as function pointers. Kernels take raw pointers and sizes, allocate
// nothing, throw nothing and know no threads; cpu_backend*.cc partitions the work.
//
// To add a kernel of attention, norm, rope, ...: declare it in attention_kernels.h, define it in an .inl file that
// isa_attention.cc includes, and fill it in at that file's end. Matrix kernels: here and isa_kernels.cc.
#pragma once
#include <stdint.h>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/panel_format.h"

namespace loci::cpu {

// Unary gate functions of the gated feed-forward block.
enum class GateFunction { kSilu, kGeluTanh };

struct MatmulKernels {
  // Quantizes blocks [block_begin, block_end) of up to `tile_tokens` rows of x into an activation tile
  // (panel_format.h). Rows n_tokens .. tile_tokens-1 of the tile become zero.
  void (*quantize_tile)(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t block_begin,
                        int64_t block_end, uint8_t* tile) noexcept;
  // Transposes elements [k_begin, k_end) of up to `tile_tokens` rows of x: tile[k * tile_tokens + t].
  void (*pack_f32_tile)(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t k_begin, int64_t k_end,
                        float* tile) noexcept;

  // One panel times one activation tile of quantized codes: out[t * 16 + r], t < tile_tokens. With few tokens it
  // fetches what lies `ahead` bytes further to L2, 0 for nothing: panels follow one another in memory.
  using PanelInt8 = void (*)(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens,
                             int64_t ahead, float* out) noexcept;
  PanelInt8 panel_int8[kPanelTypeCount];  // nullptr for the float types

  // The same for many tokens: blocks of a panel are decoded once into a slab of at most kSlabBlockBytes each, in the
  // ISA's own form, and slab_int8 adds them to acc[t * 16 + r], t < tile_tokens, in the same order and with the same
  // bits. It pays from slab_min_tokens tokens on. A thread calls begin_slabs before its first slab and end_slabs after
  // its last, where they are not null.
  // REQUIRES: block_begin and n_blocks are whole units; tile_tokens >= slab_min_tile_tokens.
  int slab_min_tokens[kPanelTypeCount];
  int slab_min_tile_tokens[kPanelTypeCount];
  using SlabUnpack = void (*)(const uint8_t* panel, int64_t block_begin, int64_t n_blocks, uint8_t* slab) noexcept;
  using SlabInt8 = void (*)(const uint8_t* slab, int64_t n_blocks, const uint8_t* tile, int tile_tokens,
                            float* acc) noexcept;
  SlabUnpack slab_unpack[kPanelTypeCount];
  SlabInt8 slab_int8[kPanelTypeCount];
  void (*begin_slabs)() noexcept;
  void (*end_slabs)() noexcept;

  // Elements [k_begin, k_begin + n) of a panel as f32: out[(k - k_begin) * 16 + r].
  // REQUIRES: k_begin a multiple of 256; n a multiple of the type's block unless the range ends at K.
  using PanelUnpack = void (*)(const uint8_t* panel, int64_t k_begin, int64_t n, float* out) noexcept;
  PanelUnpack panel_unpack[kPanelTypeCount];

  // acc[t * 16 + r] += sum over k of weights[k * 16 + r] * tile[k * tile_tokens + t], in blocks of 32 k: each block is
  // summed from +0 by fma in ascending k, then added to acc (docs/numerics.md).
  void (*panel_f32)(const float* weights, int64_t n, const float* tile, int tile_tokens, float* acc) noexcept;

  // Moves a tile of results to its place: out[t * out_stride + r] = acc (+ bias[r]) (+ out), r < n_rows <= 16.
  void (*store_tile)(const float* acc, int n_tokens, int n_rows, const float* bias, bool accumulate, float* out,
                     int64_t out_stride) noexcept;
  // out[t * out_stride + r] = function(gate) * up
  void (*store_gated_tile)(const float* gate, const float* up, GateFunction function, int n_tokens, int n_rows,
                           float* out, int64_t out_stride) noexcept;

  // Element by element, for tests: y[i] = f(x[i]).
  void (*vec_exp)(const float* x, float* y, int64_t n) noexcept;
  void (*vec_tanh)(const float* x, float* y, int64_t n) noexcept;
  void (*vec_silu)(const float* x, float* y, int64_t n) noexcept;
  void (*vec_gelu_tanh)(const float* x, float* y, int64_t n) noexcept;
};

struct KernelTable {
  const char* name;  // as LOCI_ISA spells it
  const MatmulKernels* matmul;
  const AttentionKernels* attention;
};

// One per ISA that this build holds; isa.cc lists them.
#define LOCI_DECLARE_ISA(isa)      \
  namespace isa {                  \
  extern const KernelTable kTable; \
  }
LOCI_DECLARE_ISA(scalar)
LOCI_DECLARE_ISA(avx2)
LOCI_DECLARE_ISA(avxvnni)
LOCI_DECLARE_ISA(avx512)
LOCI_DECLARE_ISA(avx512vnni)
#undef LOCI_DECLARE_ISA

}  // namespace loci::cpu
