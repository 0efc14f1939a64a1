// Packing of the K types and IQ4_XS. Each group's scale (and minimum) is searched alone; then the super-block's f16
// factors and the small integer scales are chosen together, with the codes recomputed for what will be stored.
#include "kernels/quant/pack.h"
#include "kernels/quant/search.h"

namespace loci::quant {
namespace {

constexpr int kN = 256;
constexpr int kRounds = 2;  // of integer scales, then f16 factors

// ---- scale and minimum: Q2_K, Q4_K, Q5_K ----

struct AffineBlock {
  uint16_t d = 0, dmin = 0;
  int scales[16] = {};
  int mins[16] = {};
  float codes[kN] = {};
};

// value = d scale[g] code - dmin min[g]
class AffineSearch {
 public:
  AffineSearch(const float* x, const float* importance, int group_size, int max_code, int max_scale)
      : x_(x), size_(group_size), n_groups_(kN / group_size), max_code_(max_code), max_scale_(max_scale) {
    search_weights(x, importance, kN, w_);
  }

  AffineBlock run() {
    float largest_scale = 0.0f, largest_min = 0.0f;
    for (int g = 0; g < n_groups_; ++g) {
      fits_[g] = fit_affine(x_ + g * size_, w_ + g * size_, size_, max_code_, true);
      largest_scale = std::max(largest_scale, fits_[g].scale);
      largest_min = std::max(largest_min, -fits_[g].offset);
    }
    AffineBlock block;
    block.d = finite_half(largest_scale / static_cast<float>(max_scale_));
    block.dmin = finite_half(largest_min / static_cast<float>(max_scale_));
    float error = choose_scales(block);
    for (int round = 0; round < kRounds; ++round) {
      AffineBlock next = block;
      refit_factors(next);
      const float next_error = choose_scales(next);
      if (!(next_error < error)) break;
      error = next_error;
      block = next;
    }
    return block;
  }

 private:
  // Integer scale and minimum of each group for the block's d and dmin, near the group's own fit. Returns the error.
  float choose_scales(AffineBlock& block) const {
    const float d = half_to_float(block.d), dmin = half_to_float(block.dmin);
    float total = 0.0f;
    for (int g = 0; g < n_groups_; ++g) {
      const float* x = x_ + g * size_;
      const float* w = w_ + g * size_;
      const int scale = near_integer(fits_[g].scale, d), minimum = near_integer(-fits_[g].offset, dmin);
      float best = INFINITY;
      float codes[32];
      for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, max_scale_); ++s) {
        for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, max_scale_); ++m) {
          const float step = d * static_cast<float>(s), offset = -dmin * static_cast<float>(m);
          nearest_codes(x, size_, step, offset, 0.0f, static_cast<float>(max_code_), codes);
          const float error = weighted_error(x, w, size_, step, offset, codes);
          if (!(error < best)) continue;
          best = error;
          block.scales[g] = s;
          block.mins[g] = m;
          std::copy(codes, codes + size_, block.codes + g * size_);
        }
      }
      total += best;
    }
    return total;
  }

  int near_integer(float value, float unit) const {
    const float ratio = value * inverse(unit);
    if (!std::isfinite(ratio)) return 0;
    return static_cast<int>(round_even(std::clamp(ratio, 0.0f, static_cast<float>(max_scale_))));
  }

  // Least squares for d and dmin, everything else fixed: x ~ d a - dmin b with a = scale code, b = min.
  void refit_factors(AffineBlock& block) const {
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int i = 0; i < kN; ++i) {
      const double a = block.scales[i / size_] * static_cast<double>(block.codes[i]), b = block.mins[i / size_];
      const double w = w_[i], x = x_[i];
      aa += w * a * a, ab += w * a * b, bb += w * b * b, xa += w * x * a, xb += w * x * b;
    }
    const double determinant = aa * bb - ab * ab;
    double d = aa > 0 ? xa / aa : 0, dmin = 0;
    if (determinant > 1e-12 * aa * bb) {
      d = (xa * bb - xb * ab) / determinant;
      dmin = (xa * ab - xb * aa) / determinant;
    }
    if (d <= 0 || dmin < 0) return;  // degenerate: keep what there is
    block.d = finite_half(static_cast<float>(d));
    block.dmin = finite_half(static_cast<float>(dmin));
  }

  const float* x_;
  float w_[kN];
  int size_, n_groups_, max_code_, max_scale_;
  Fit fits_[16];
};

// Scales and minimums of eight groups into 12 bytes, the inverse of k_scale() and k_min().
void put_scales(const AffineBlock& from, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(from.scales[j] | (from.scales[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(from.mins[j] | (from.mins[j + 4] >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((from.scales[j + 4] & 15) | (from.mins[j + 4] & 15) << 4);
  }
}

// Low nibbles of groups 2k, high nibbles of groups 2k + 1.
void put_nibbles(const float* codes, uint8_t* qs) {
  for (int i = 0; i < 128; ++i) {
    const float* first = codes + 64 * (i / 32) + i % 32;
    qs[i] = static_cast<uint8_t>((static_cast<int>(first[0]) & 15) | (static_cast<int>(first[32]) & 15) << 4);
  }
}

// Two-bit fields as Q2_K and Q3_K place them: byte 32 h + i holds elements 128 h + i + 32 {0, 1, 2, 3}.
template <typename Low>
void put_two_bits(Low low, uint8_t* qs) {
  for (int i = 0; i < 64; ++i) {
    const int first = 128 * (i / 32) + i % 32;
    qs[i] = static_cast<uint8_t>(low(first) | low(first + 32) << 2 | low(first + 64) << 4 | low(first + 96) << 6);
  }
}

// ---- signed scale, no minimum: Q3_K, Q6_K, IQ4_XS ----

struct SignedBlock {
  uint16_t d = 0;
  int scales[16] = {};
  float codes[kN] = {};
};

// value = d scale[g] code. `Nearest(x, n, scale, codes)` gives the best codes for a scale.
template <typename Nearest>
class SignedSearch {
 public:
  // scales lie in -scale_range .. scale_range - 1
  SignedSearch(const float* x, const float* w, int group_size, int scale_range, Nearest nearest)
      : x_(x), w_(w), size_(group_size), n_groups_(kN / group_size), range_(scale_range), nearest_(nearest) {}

  // `fits`: each group's own best scale.
  SignedBlock run(const float* fits) {
    float largest = 0.0f;
    for (int g = 0; g < n_groups_; ++g) largest = std::abs(fits[g]) > std::abs(largest) ? fits[g] : largest;
    SignedBlock block;
    block.d = finite_half(largest / static_cast<float>(-range_));
    float error = choose_scales(fits, block);
    for (int round = 0; round < kRounds; ++round) {
      SignedBlock next = block;
      refit_factor(next);
      const float next_error = choose_scales(fits, next);
      if (!(next_error < error)) break;
      error = next_error;
      block = next;
    }
    return block;
  }

 private:
  float choose_scales(const float* fits, SignedBlock& block) const {
    const float d = half_to_float(block.d), inv = inverse(d);
    const float low = static_cast<float>(-range_), high = static_cast<float>(range_ - 1);
    float total = 0.0f;
    for (int g = 0; g < n_groups_; ++g) {
      const float* x = x_ + g * size_;
      const float ratio = std::isfinite(inv) ? std::clamp(fits[g] * inv, low, high) : 0.0f;
      const int scale = static_cast<int>(round_even(ratio));
      float best = INFINITY;
      float codes[32];
      for (int s = std::max(scale - 1, -range_); s <= std::min(scale + 1, range_ - 1); ++s) {
        const float step = d * static_cast<float>(s);
        nearest_(x, size_, step, codes);
        const float error = weighted_error(x, w_ + g * size_, size_, step, 0.0f, codes);
        if (!(error < best)) continue;
        best = error;
        block.scales[g] = s;
        std::copy(codes, codes + size_, block.codes + g * size_);
      }
      total += best;
    }
    return total;
  }

  void refit_factor(SignedBlock& block) const {
    double xa = 0, aa = 0;
    for (int i = 0; i < kN; ++i) {
      const double a = block.scales[i / size_] * static_cast<double>(block.codes[i]);
      xa += static_cast<double>(w_[i]) * x_[i] * a;
      aa += static_cast<double>(w_[i]) * a * a;
    }
    if (aa > 0) block.d = finite_half(static_cast<float>(xa / aa));
  }

  const float* x_;
  const float* w_;
  int size_, n_groups_, range_;
  Nearest nearest_;
};

// Groups of 16, codes lo..hi.
SignedBlock search_linear(const float* x, const float* importance, int lo, int hi, int scale_range) {
  float w[kN], fits[16];
  search_weights(x, importance, kN, w);
  for (int g = 0; g < 16; ++g) fits[g] = fit_symmetric(x + 16 * g, w + 16 * g, 16, lo, hi).scale;
  const auto nearest = [lo, hi](const float* values, int n, float scale, float* codes) {
    nearest_codes(values, n, scale, 0.0f, static_cast<float>(lo), static_cast<float>(hi), codes);
  };
  return SignedSearch(x, w, 16, scale_range, nearest).run(fits);
}

// Table values (not indices) of IQ4_XS nearest to x / scale.
void nearest_iq4_values(const float* x, int n, float scale, float* values) {
  const float inv = std::isfinite(inverse(scale)) ? inverse(scale) : 0.0f;
  for (int i = 0; i < n; ++i) {
    const float v = x[i] * inv;
    int index = 0;
    for (int k = 0; k < 15; ++k) index += v > 0.5f * static_cast<float>(iq4_value(k) + iq4_value(k + 1)) ? 1 : 0;
    values[i] = static_cast<float>(iq4_value(index));
  }
}

float fit_iq4(const float* x, const float* w, int n) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) largest = std::abs(x[i]) > std::abs(largest) ? x[i] : largest;
  float best_scale = 0.0f, best_error = INFINITY;
  for (const int end : {iq4_value(0), iq4_value(15)}) {
    for (int step = -7; step <= 7; ++step) {
      float q[32];
      nearest_iq4_values(x, n, largest / static_cast<float>(end + step), q);
      const float xq = lane_sum(n, [&](int i) { return w[i] * x[i] * q[i]; });
      const float qq = lane_sum(n, [&](int i) { return w[i] * q[i] * q[i]; });
      const float scale = qq > 0.0f ? xq / qq : 0.0f;
      const float error = weighted_error(x, w, n, scale, 0.0f, q);
      if (error < best_error) best_error = error, best_scale = scale;
    }
  }
  return best_scale;
}

}  // namespace

void pack(const float* x, const float* importance, BlockQ2_K& block) {
  const AffineBlock best = AffineSearch(x, importance, 16, 3, 15).run();
  block.d = best.d;
  block.dmin = best.dmin;
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(best.scales[g] | best.mins[g] << 4);
  put_two_bits([&](int i) { return static_cast<int>(best.codes[i]); }, block.qs);
}

void pack(const float* x, const float* importance, BlockQ4_K& block) {
  const AffineBlock best = AffineSearch(x, importance, 32, 15, 63).run();
  block.d = best.d;
  block.dmin = best.dmin;
  put_scales(best, block.scales);
  put_nibbles(best.codes, block.qs);
}

void pack(const float* x, const float* importance, BlockQ5_K& block) {
  const AffineBlock best = AffineSearch(x, importance, 32, 31, 63).run();
  block.d = best.d;
  block.dmin = best.dmin;
  put_scales(best, block.scales);
  put_nibbles(best.codes, block.qs);
  std::fill(block.qh, block.qh + 32, uint8_t{0});
  for (int i = 0; i < kN; ++i) {
    block.qh[i % 32] |= static_cast<uint8_t>((static_cast<int>(best.codes[i]) >> 4) << (i / 32));
  }
}

void pack(const float* x, const float* importance, BlockQ3_K& block) {
  const SignedBlock best = search_linear(x, importance, -4, 3, 32);
  block.d = best.d;
  const auto code = [&](int i) { return static_cast<int>(best.codes[i]) + 4; };  // 0..7
  put_two_bits([&](int i) { return code(i) & 3; }, block.qs);
  std::fill(block.hmask, block.hmask + 32, uint8_t{0});
  for (int i = 0; i < kN; ++i) block.hmask[i % 32] |= static_cast<uint8_t>((code(i) >> 2) << (i / 32));
  std::fill(block.scales, block.scales + 12, uint8_t{0});
  for (int g = 0; g < 16; ++g) {
    const int scale = best.scales[g] + 32;
    block.scales[g % 8] |= static_cast<uint8_t>((scale & 15) << (4 * (g / 8)));
    block.scales[8 + g % 4] |= static_cast<uint8_t>((scale >> 4) << (2 * (g / 4)));
  }
}

void pack(const float* x, const float* importance, BlockQ6_K& block) {
  const SignedBlock best = search_linear(x, importance, -32, 31, 128);
  block.d = best.d;
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(best.scales[g]);
  const auto code = [&](int i) { return static_cast<int>(best.codes[i]) + 32; };  // 0..63
  for (int i = 0; i < 128; ++i) {
    const int first = 128 * (i / 64) + i % 64;  // quarters 0 and 1 in the low nibbles, 2 and 3 in the high ones
    block.ql[i] = static_cast<uint8_t>((code(first) & 15) | (code(first + 64) & 15) << 4);
  }
  put_two_bits([&](int i) { return code(i) >> 4; }, block.qh);
}

void pack(const float* x, const float* importance, BlockIQ4_XS& block) {
  float w[kN], fits[8];
  search_weights(x, importance, kN, w);
  for (int g = 0; g < 8; ++g) fits[g] = fit_iq4(x + 32 * g, w + 32 * g, 32);
  const SignedBlock best = SignedSearch(x, w, 32, 32, nearest_iq4_values).run(fits);
  block.d = best.d;
  block.scales_h = 0;
  std::fill(block.scales_l, block.scales_l + 4, uint8_t{0});
  for (int j = 0; j < 8; ++j) {
    const int scale = best.scales[j] + 32;
    block.scales_l[j / 2] |= static_cast<uint8_t>((scale & 15) << (4 * (j % 2)));
    block.scales_h = static_cast<uint16_t>(block.scales_h | (scale >> 4) << (2 * j));
  }
  const auto index = [&](int i) {
    int k = 0;
    while (static_cast<float>(iq4_value(k)) != best.codes[i]) ++k;
    return k;
  };
  for (int i = 0; i < 128; ++i) {
    const int first = 32 * (i / 16) + i % 16;
    block.qs[i] = static_cast<uint8_t>(index(first) | index(first + 16) << 4);
  }
}

}  // namespace loci::quant
