// Random tensors of any type for the matrix tests: every code and scale byte occurs, with magnitudes that keep the
// dequantized values near 1.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/quant/quant.h"
#include "kernels/tensor.h"

namespace loci::test {

struct RandomWeight {
  std::vector<std::byte> bytes;
  TensorView view;
  std::vector<float> values;  // [n, k] dequantized
};

// Types that a matrix can have; the first ones have panel forms.
inline const std::vector<DType>& weight_types() {
  static const std::vector<DType> types = {DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,  DType::kQ5_1,  DType::kQ8_0,
                                           DType::kIQ4_NL, DType::kMXFP4, DType::kQ2_K,  DType::kQ3_K,  DType::kQ4_K,
                                           DType::kQ5_K,   DType::kQ6_K,  DType::kF32,   DType::kF16,   DType::kBF16,
                                           DType::kIQ4_XS, DType::kTQ1_0, DType::kTQ2_0, DType::kNVFP4, DType::kQ1_0,
                                           DType::kQ2_0,   DType::kQ8_1};
  return types;
}

inline RandomWeight random_weight(DType type, int64_t n, int64_t k, uint32_t seed) {
  RandomWeight weight;
  std::mt19937 random(seed);
  const int64_t block = traits(type).block_elements, block_bytes = traits(type).block_bytes;
  weight.bytes.resize(static_cast<size_t>(row_bytes(type, k) * n));
  for (std::byte& byte : weight.bytes) byte = static_cast<std::byte>(random() & 255);
  const auto uniform = [&] { return static_cast<float>(random() % 20001) / 10000.0f - 1.0f; };
  for (int64_t b = 0; b < n * k / block; ++b) {
    std::byte* at = weight.bytes.data() + b * block_bytes;
    const auto put_f16 = [&](int64_t offset, float magnitude) {
      const uint16_t half = f32_to_f16(uniform() * magnitude);
      std::memcpy(at + offset, &half, sizeof(half));
    };
    switch (type) {
      case DType::kF32: {
        const float value = uniform();
        std::memcpy(at, &value, sizeof(value));
        break;
      }
      case DType::kF16:
        put_f16(0, 1.0f);
        break;
      case DType::kBF16: {
        const uint16_t value = f32_to_bf16(uniform());
        std::memcpy(at, &value, sizeof(value));
        break;
      }
      case DType::kQ4_0:
      case DType::kQ5_0:
        put_f16(0, 0.1f);
        break;
      case DType::kQ8_0:
      case DType::kIQ4_NL:
        put_f16(0, 0.01f);
        break;
      case DType::kQ8_1:
      case DType::kQ4_1:
      case DType::kQ5_1:
        put_f16(0, 0.05f), put_f16(2, 0.5f);
        break;
      case DType::kMXFP4:
        at[0] = static_cast<std::byte>(120 + random() % 8);
        break;
      case DType::kNVFP4:
        for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(random() % 64);
        break;
      case DType::kQ2_K:
        put_f16(80, 0.02f), put_f16(82, 0.02f);
        break;
      case DType::kQ3_K:
        put_f16(108, 0.01f);
        break;
      case DType::kQ4_K:
      case DType::kQ5_K:
        put_f16(0, 0.002f), put_f16(2, 0.005f);
        break;
      case DType::kQ6_K:
        put_f16(208, 0.0005f);
        break;
      case DType::kIQ4_XS:
        put_f16(0, 0.0005f);
        break;
      case DType::kTQ1_0:
        put_f16(52, 1.0f);
        break;
      case DType::kTQ2_0:
        put_f16(64, 1.0f);
        break;
      case DType::kQ1_0:
      case DType::kQ2_0:
        put_f16(0, 1.0f);
        break;
      default:
        break;
    }
  }
  weight.view = {weight.bytes.data(), type, {k, n, 1, 1}, "test." + std::string(name(type))};
  weight.values.resize(static_cast<size_t>(n * k));
  for (int64_t r = 0; r < n; ++r) dequantize_row(type, weight.view.row(r), weight.values.data() + r * k, k);
  return weight;
}

}  // namespace loci::test
