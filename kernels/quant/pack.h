// Packers of f32 values into blocks, one function per type; quantize.cc picks one. Each packs one block.
#pragma once
#include "kernels/quant/quant_list.h"

namespace loci::quant {

// x and importance (or nullptr) have Block::kElements values, all finite. Without importance the 32-element and
// ternary types minimize the plain squared error; the K types and IQ4_XS always use search_weights().
void pack(const float* x, const float* importance, BlockQ4_0& block);
void pack(const float* x, const float* importance, BlockQ4_1& block);
void pack(const float* x, const float* importance, BlockQ5_0& block);
void pack(const float* x, const float* importance, BlockQ5_1& block);
void pack(const float* x, const float* importance, BlockQ8_0& block);
void pack(const float* x, const float* importance, BlockIQ4_NL& block);
void pack(const float* x, const float* importance, BlockMXFP4& block);
void pack(const float* x, const float* importance, BlockTQ1_0& block);
void pack(const float* x, const float* importance, BlockTQ2_0& block);
void pack(const float* x, const float* importance, BlockQ2_K& block);
void pack(const float* x, const float* importance, BlockQ3_K& block);
void pack(const float* x, const float* importance, BlockQ4_K& block);
void pack(const float* x, const float* importance, BlockQ5_K& block);
void pack(const float* x, const float* importance, BlockQ6_K& block);
void pack(const float* x, const float* importance, BlockIQ4_XS& block);

}  // namespace loci::quant
