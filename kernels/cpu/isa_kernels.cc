// Matrix kernels of one instruction set. CMake compiles this file once per ISA (sources.cmake) with LOCI_ISA naming
// the namespace and LOCI_SIMD_HEADER the vector types. Only C headers, intrinsics and our plain headers here: an
// instance of a std template would be a weak symbol that the linker may choose for the whole program.
#include LOCI_SIMD_HEADER
#include "kernels/cpu/kernel_table.h"

#define LOCI_STR2(x) #x
#define LOCI_STR(x) LOCI_STR2(x)

namespace loci::cpu::LOCI_ATTENTION_ISA {
extern const AttentionKernels kAttentionKernels;  // isa_attention.cc
}

namespace loci::cpu::LOCI_ISA {

namespace {

// No include guards, no namespaces: pasted here on purpose.
// Each file uses the ones before it.
// clang-format off
#include "kernels/cpu/vec_math.inl"
#include "kernels/cpu/quantize.inl"
#include "kernels/cpu/panel_types.inl"
#include "kernels/cpu/matmul.inl"
#include LOCI_PANEL_PASSES
// clang-format on

template <VecF (*kFunction)(VecF)>
void map(const float* x, float* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i += VecF::kLanes) {
    const int rest = n - i < VecF::kLanes ? static_cast<int>(n - i) : VecF::kLanes;
    kFunction(VecF::load_first(x + i, rest)).store_first(y + i, rest);
  }
}
void map_exp(const float* x, float* y, int64_t n) noexcept { map<vec_exp>(x, y, n); }
void map_tanh(const float* x, float* y, int64_t n) noexcept { map<vec_tanh>(x, y, n); }
void map_silu(const float* x, float* y, int64_t n) noexcept { map<vec_silu>(x, y, n); }
void map_gelu_tanh(const float* x, float* y, int64_t n) noexcept { map<vec_gelu_tanh>(x, y, n); }

template <class Q>
constexpr MatmulKernels::SlabInt8 slab_int8 = slab_tile<SlabOf<Q>>;
template <class Q>
constexpr int slab_min_tokens = kSlabMinTokens;
template <class Q>
constexpr int slab_min_tile_tokens = kSlabMinTileTokens;

// A kernel of every quantized type, in the order of PanelType.
#define LOCI_OF_EACH(kernel)                                                                                    \
  kernel<TypeQ4_0>, kernel<TypeQ4_1>, kernel<TypeQ5_0>, kernel<TypeQ5_1>, kernel<TypeQ8_0>, kernel<TypeIQ4_NL>, \
      kernel<TypeMXFP4>, kernel<TypeQ2_K>, kernel<TypeQ3_K>, kernel<TypeQ4_K>, kernel<TypeQ5_K>, kernel<TypeQ6_K>

constexpr MatmulKernels kMatmulKernels = {
    .quantize_tile = quantize_tile,
    .pack_f32_tile = pack_f32_tile,
    .panel_int8 = {LOCI_OF_EACH(panel_int8)},
    .slab_min_tokens = {LOCI_OF_EACH(slab_min_tokens)},
    .slab_min_tile_tokens = {LOCI_OF_EACH(slab_min_tile_tokens)},
    .slab_unpack = {LOCI_OF_EACH(slab_unpack)},
    .slab_int8 = {LOCI_OF_EACH(slab_int8)},
    .begin_slabs = nullptr,
    .end_slabs = nullptr,
    .panel_unpack = {LOCI_OF_EACH(panel_unpack), panel_unpack_f32, panel_unpack_f16, panel_unpack_bf16},
    .panel_f32 = panel_f32,
    .store_tile = store_tile,
    .store_gated_tile = store_gated_tile,
    .vec_exp = map_exp,
    .vec_tanh = map_tanh,
    .vec_silu = map_silu,
    .vec_gelu_tanh = map_gelu_tanh,
};

}  // namespace

const KernelTable kTable = {
    .name = LOCI_STR(LOCI_ISA), .matmul = &kMatmulKernels, .attention = &LOCI_ATTENTION_ISA::kAttentionKernels};

}  // namespace loci::cpu::LOCI_ISA
