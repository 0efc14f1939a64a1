// Packing of the 32-element types and the ternary types. Every search is compared with the customary rule (scale from
// the largest value) in the end, with the scale as it is stored, so a block is never worse than that rule's.
#include "kernels/quant/pack.h"
#include "kernels/quant/search.h"

namespace loci::quant {
namespace {

void legacy_weights(const float* x, const float* importance, int n, float* w) {
  if (importance != nullptr) {
    search_weights(x, importance, n, w);
  } else {
    std::fill(w, w + n, 1.0f);
  }
}

float signed_largest(const float* x, int n) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) largest = std::abs(x[i]) > std::abs(largest) ? x[i] : largest;
  return largest;
}

// Codes lo..hi of n values and the stored scale; `rule` is the customary scale.
template <int n>
uint16_t choose_symmetric(const float* x, const float* importance, int lo, int hi, float rule, float* q) {
  float w[n];
  legacy_weights(x, importance, n, w);
  const float candidates[2] = {fit_symmetric(x, w, n, lo, hi).scale, rule};
  uint16_t best = 0;
  float best_error = INFINITY;
  float codes[n];
  for (const float candidate : candidates) {
    const uint16_t stored = finite_half(candidate);
    const float scale = half_to_float(stored);
    nearest_codes(x, n, scale, 0.0f, static_cast<float>(lo), static_cast<float>(hi), codes);
    const float error = weighted_error(x, w, n, scale, 0.0f, codes);
    if (!(error < best_error)) continue;
    best_error = error;
    best = stored;
    std::copy(codes, codes + n, q);
  }
  return best;
}

struct StoredAffine {
  uint16_t d, m;
};

StoredAffine choose_affine(const float* x, const float* importance, int hi, float* q) {
  constexpr int n = 32;
  float w[n];
  legacy_weights(x, importance, n, w);
  const float low = *std::min_element(x, x + n);
  const float high = *std::max_element(x, x + n);
  const Fit fit = fit_affine(x, w, n, hi, false);
  // The customary rule twice: minimum and scale rounded apart, and a scale that starts from the rounded minimum.
  const float rounded_low = half_to_float(finite_half(low));
  const float steps = static_cast<float>(hi);
  const float candidates[3][2] = {
      {fit.scale, fit.offset}, {(high - low) / steps, low}, {(high - rounded_low) / steps, rounded_low}};
  StoredAffine best{};
  float best_error = INFINITY;
  float codes[n];
  for (const auto& [d, m] : candidates) {
    const StoredAffine stored{finite_half(d), finite_half(m)};
    const float scale = half_to_float(stored.d), offset = half_to_float(stored.m);
    nearest_codes(x, n, scale, offset, 0.0f, steps, codes);
    const float error = weighted_error(x, w, n, scale, offset, codes);
    if (!(error < best_error)) continue;
    best_error = error;
    best = stored;
    std::copy(codes, codes + n, q);
  }
  return best;
}

// Codes 0..31 of 32 elements: low four bits to qs, the fifth to qh.
void put_codes(const int* codes, uint8_t* qs, uint8_t* qh) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  if (qh == nullptr) return;
  std::fill(qh, qh + 4, uint8_t{0});
  for (int i = 0; i < 32; ++i) qh[i / 8] |= static_cast<uint8_t>((codes[i] >> 4) << (i % 8));
}

template <int n>
void shifted_codes(const float* q, int shift, int* codes) {
  for (int i = 0; i < n; ++i) codes[i] = static_cast<int>(q[i]) + shift;
}

// Index of the IQ4_NL value nearest to v.
int nearest_iq4(float v) {
  int index = 0;
  for (int i = 0; i < 15; ++i) index += v > 0.5f * static_cast<float>(iq4_value(i) + iq4_value(i + 1)) ? 1 : 0;
  return index;
}

// Index of the FP4 code nearest to v / 2, with v on the scale of fp4_doubled().
int nearest_fp4(float v) {
  const float magnitude = std::abs(v);
  int code = 0;
  for (int i = 0; i < 7; ++i) code += magnitude > 0.5f * static_cast<float>(fp4_doubled(i) + fp4_doubled(i + 1));
  return v < 0.0f && code > 0 ? code + 8 : code;
}

}  // namespace

void pack(const float* x, const float* importance, BlockQ4_0& block) {
  float q[32];
  int codes[32];
  block.d = choose_symmetric<32>(x, importance, -8, 7, signed_largest(x, 32) / -8.0f, q);
  shifted_codes<32>(q, 8, codes);
  put_codes(codes, block.qs, nullptr);
}

void pack(const float* x, const float* importance, BlockQ5_0& block) {
  float q[32];
  int codes[32];
  block.d = choose_symmetric<32>(x, importance, -16, 15, signed_largest(x, 32) / -16.0f, q);
  shifted_codes<32>(q, 16, codes);
  put_codes(codes, block.qs, block.qh);
}

void pack(const float* x, const float* importance, BlockQ4_1& block) {
  float q[32];
  int codes[32];
  const StoredAffine stored = choose_affine(x, importance, 15, q);
  block.d = stored.d;
  block.m = stored.m;
  shifted_codes<32>(q, 0, codes);
  put_codes(codes, block.qs, nullptr);
}

void pack(const float* x, const float* importance, BlockQ5_1& block) {
  float q[32];
  int codes[32];
  const StoredAffine stored = choose_affine(x, importance, 31, q);
  block.d = stored.d;
  block.m = stored.m;
  shifted_codes<32>(q, 0, codes);
  put_codes(codes, block.qs, block.qh);
}

// With 255 steps the range decides; a search gains nothing worth its time.
void pack(const float* x, const float*, BlockQ8_0& block) {
  float q[32];
  block.d = finite_half(std::abs(signed_largest(x, 32)) / 127.0f);
  nearest_codes(x, 32, half_to_float(block.d), 0.0f, -127.0f, 127.0f, q);
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(q[i]);
}

void pack(const float* x, const float* importance, BlockIQ4_NL& block) {
  float w[32];
  legacy_weights(x, importance, 32, w);
  const float largest = signed_largest(x, 32);
  float best_error = INFINITY;
  // The table reaches further below zero than above, so the largest value is tried at either end.
  for (const int end : {iq4_value(0), iq4_value(15)}) {
    for (int step = -7; step <= 7; ++step) {
      float scale = largest / (static_cast<float>(end) + static_cast<float>(step));
      for (int round = 0; round < 2; ++round) {  // the second with the scale that fits the first's codes
        const uint16_t stored = finite_half(scale);
        const float d = half_to_float(stored), inv = inverse(d);
        float q[32];
        int codes[32];
        for (int i = 0; i < 32; ++i) {
          codes[i] = nearest_iq4(x[i] * inv);
          q[i] = static_cast<float>(iq4_value(codes[i]));
        }
        const float error = weighted_error(x, w, 32, d, 0.0f, q);
        if (error < best_error) {
          best_error = error;
          block.d = stored;
          put_codes(codes, block.qs, nullptr);
        }
        const float xq = lane_sum(32, [&](int i) { return w[i] * x[i] * q[i]; });
        const float qq = lane_sum(32, [&](int i) { return w[i] * q[i] * q[i]; });
        scale = xq / qq;  // no table value is 0, so qq > 0 unless all weights are 0
        if (!std::isfinite(scale)) break;
      }
    }
  }
}

void pack(const float* x, const float* importance, BlockMXFP4& block) {
  float w[32];
  legacy_weights(x, importance, 32, w);
  const float largest = std::abs(signed_largest(x, 32));
  // The customary exponent puts the largest value within FP4's top binade; one more may round better.
  const int base = largest > 0.0f ? std::ilogb(largest) - 2 + 127 : 0;
  float best_error = INFINITY;
  for (int e = base; e <= base + 1; ++e) {
    const int stored = std::clamp(e, 0, 254);
    const float d = mxfp4_half_scale(stored);
    float q[32];
    int codes[32];
    for (int i = 0; i < 32; ++i) {
      codes[i] = nearest_fp4(x[i] / d);
      q[i] = static_cast<float>(fp4_doubled(codes[i]));
    }
    const float error = weighted_error(x, w, 32, d, 0.0f, q);
    if (!(error < best_error)) continue;
    best_error = error;
    block.e = static_cast<uint8_t>(stored);
    put_codes(codes, block.qs, nullptr);
  }
}

namespace {

// Ternary codes of 256 values. The best scale lies anywhere between the mean and the largest magnitude.
uint16_t choose_ternary(const float* x, const float* importance, int* codes) {
  float w[256], q[256];
  legacy_weights(x, importance, 256, w);
  const float largest = std::abs(signed_largest(x, 256));
  uint16_t best = 0;
  float best_error = INFINITY;
  for (const float divisor : {1.0f, 1.5f, 2.0f, 3.0f, 4.0f}) {
    float scale = largest / divisor;
    for (int round = 0; round < 8; ++round) {
      const uint16_t stored = finite_half(scale);
      const float d = half_to_float(stored);
      nearest_codes(x, 256, d, 0.0f, -1.0f, 1.0f, q);
      const float error = weighted_error(x, w, 256, d, 0.0f, q);
      if (error < best_error) {
        best_error = error;
        best = stored;
        shifted_codes<256>(q, 1, codes);
      }
      const float xq = lane_sum(256, [&](int i) { return w[i] * x[i] * q[i]; });
      const float qq = lane_sum(256, [&](int i) { return w[i] * q[i] * q[i]; });
      if (!(qq > 0.0f) || xq / qq == scale) break;
      scale = xq / qq;
    }
  }
  return best;
}

// n digits (0..2, most significant first), `stride` apart, as a fixed-point fraction that ternary_digit() reads.
uint8_t pack_digits(const int* codes, int n, int stride) {
  int number = 0;
  for (int i = 0; i < 5; ++i) number = number * 3 + (i < n ? codes[i * stride] : 0);
  return static_cast<uint8_t>((number * 256 + 242) / 243);  // rounded up: multiplying back must not fall short
}

}  // namespace

void pack(const float* x, const float* importance, BlockTQ1_0& block) {
  int codes[256];
  block.d = choose_ternary(x, importance, codes);
  for (int i = 0; i < 32; ++i) block.qs[i] = pack_digits(codes + i, 5, 32);
  for (int i = 0; i < 16; ++i) block.qs[32 + i] = pack_digits(codes + 160 + i, 5, 16);
  for (int i = 0; i < 4; ++i) block.qh[i] = pack_digits(codes + 240 + i, 4, 4);
}

void pack(const float* x, const float* importance, BlockTQ2_0& block) {
  int codes[256];
  block.d = choose_ternary(x, importance, codes);
  for (int i = 0; i < 64; ++i) {
    const int* first = codes + 128 * (i / 32) + i % 32;
    block.qs[i] = static_cast<uint8_t>(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
  }
}

}  // namespace loci::quant
