// AttentionKernels: the part of KernelTable that holds attention, norm, rope, softmax, element-wise work and K/V
// formats. Defined by the .inl files that isa_attention.cc includes; each function's contract is there.
#pragma once
#include <stdint.h>

#include "kernels/cpu/attention_args.h"

namespace loci::cpu {

struct AttentionKernels {
  // attention.inl
  int max_block_rows;  // rows per block of AttendSplit::q
  void (*pack_q)(const float* const* rows, int n_rows, int head_dim, float factor, float* out) noexcept;
  void (*attend_split)(const AttendSplit& args) noexcept;
  void (*merge_state)(float* state, const float* part, int n) noexcept;
  void (*finish_row)(const float* state, int head_dim, const float* sink, float* out) noexcept;

  // kv_store.inl
  void (*kv_store_k)(KvFormat format, const float* row, int head_dim, std::byte* tile, int token) noexcept;
  void (*kv_store_v)(KvFormat format, const float* row, int head_dim, std::byte* tile, int token) noexcept;

  // norm.inl, rope.inl, softmax.inl
  void (*rms_norm_row)(const float* x, const float* weight, float eps, int64_t n, float* out) noexcept;
  void (*add_row)(float* y, const float* x, int64_t n) noexcept;
  void (*rope_half_split)(float* x, const float* cos, const float* sin, int n_rot) noexcept;
  void (*rope_adjacent)(float* x, const float* cos, const float* sin, int n_rot) noexcept;
  void (*softcap_row)(float* x, int64_t n, float cap) noexcept;

  // y[i] = 2^x[i], for tests.
  void (*vec_exp2)(const float* x, float* y, int64_t n) noexcept;
};

}  // namespace loci::cpu
