// Attention, norm, rope and element-wise kernels of one instruction set; compiled once per ISA, as isa_kernels.cc.
#include LOCI_SIMD_HEADER
#include "kernels/attention/softmax_state.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/kv_format/kv_format_list.h"

namespace loci::cpu::LOCI_ISA {
namespace {
// No include guards, no namespaces: pasted here on purpose, each after those it uses.
// clang-format off
#include "kernels/cpu/vec_math.inl"
#include "kernels/cpu/softmax.inl"
#include "kernels/cpu/norm.inl"
#include "kernels/cpu/rope.inl"
#include "kernels/cpu/kv_store.inl"
#include "kernels/cpu/attention.inl"
// clang-format on
}  // namespace

extern const AttentionKernels kAttentionKernels;
const AttentionKernels kAttentionKernels = {
    .max_block_rows = kAttentionRows,
    .pack_q = pack_q,
    .attend_split = attend_split,
    .merge_state = merge_state,
    .finish_row = finish_row,
    .kv_store_k = kv_store_k,
    .kv_store_v = kv_store_v,
    .rms_norm_row = rms_norm_row,
    .add_row = add_row,
    .rope_half_split = rope_half_split,
    .rope_adjacent = rope_adjacent,
    .softcap_row = softcap_row,
    .vec_exp2 = vec_exp2_all,
};

}  // namespace loci::cpu::LOCI_ISA
