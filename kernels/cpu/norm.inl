// RMS norm of one row (Zhang & Sennrich 2019, arXiv:1910.07467) and the residual add. Pasted into the ISA units.

// Sum of x[i]^2 in the fixed order of docs/attention.md: 32 partial sums over i mod 32, each an fma chain, then a tree
// that halves their number five times.
LOCI_HD float sum_of_squares(const float* x, int64_t n) {
  constexpr int kPartials = 32;
  constexpr int kVecs = kPartials / VecF::kLanes;
  float partial[kPartials];
  VecF acc[kVecs];
  for (int v = 0; v < kVecs; ++v) acc[v] = VecF::zero();
  int64_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (int v = 0; v < kVecs; ++v) {
      const VecF value = VecF::load(x + i + v * VecF::kLanes);
      acc[v] = fma(value, value, acc[v]);
    }
  }
  for (int v = 0; v < kVecs; ++v) acc[v].store(partial + v * VecF::kLanes);
  for (int j = 0; i + j < n; ++j) partial[j] = __builtin_fmaf(x[i + j], x[i + j], partial[j]);
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) partial[j] += partial[j + half];
  }
  return partial[0];
}

// out = x / sqrt(mean(x^2) + eps) * weight.  out may be x.
void rms_norm_row(const float* x, const float* weight, float eps, int64_t n, float* out) noexcept {
  const float scale = 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  const VecF factor = VecF::splat(scale);
  int64_t i = 0;
  for (; i + VecF::kLanes <= n; i += VecF::kLanes) (VecF::load(x + i) * factor * VecF::load(weight + i)).store(out + i);
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

// y += x.
void add_row(float* y, const float* x, int64_t n) noexcept {
  int64_t i = 0;
  for (; i + VecF::kLanes <= n; i += VecF::kLanes) (VecF::load(y + i) + VecF::load(x + i)).store(y + i);
  for (; i < n; ++i) y[i] += x[i];
}
