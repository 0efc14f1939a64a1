// Conversion between block-quantized rows and f32, for every type of kernels/dtype.h that can be dequantized.
// Layouts: one header per type beside this file; the list is quant_list.h. Exact, scalar, shared by all devices' tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace loci {

// Writes n f32 values. REQUIRES: traits(type).can_dequantize, n a multiple of its block.
void dequantize_row(DType type, const std::byte* src, float* dst, int64_t n);

// True for F32 F16 BF16, the legacy types (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0, IQ4_NL), Q2_K..Q6_K, and what else has a
// quantizer.
bool can_quantize(DType type);
// Packs n f32 values. `importance` (n weights, or nullptr) biases the K types' search; values must be finite.
void quantize_row(DType type, const float* src, std::byte* dst, int64_t n, const float* importance = nullptr);

// Scalar conversions, round to nearest even; NaN stays NaN (quiet).
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);

}  // namespace loci
