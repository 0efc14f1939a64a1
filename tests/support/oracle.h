// The oracle: textbook versions of the decoder's operations, slow and plain, on contiguous arrays. It shares nothing
// with the engine. Every function is a template over the type it computes in: double is the truth that kernels are
// tested against, float ("textbook in the same precision") sets the error that a kernel may have.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace loci::oracle {

// One sequence: row r has position positions[r] and sees keys 0..positions[r] (or the last `window` of them).
struct Attention {
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  double scale = 0;
  double softcap = 0;            // 0: none
  int window = 0;                // 0: none
  const float* sinks = nullptr;  // [n_heads] or nullptr
  std::span<const int32_t> positions;
  const float* q = nullptr;  // [n_rows, n_heads, head_dim]
  const float* k = nullptr;  // [n_keys, n_kv_heads, head_dim]
  const float* v = nullptr;  // [n_keys, n_kv_heads, head_dim]
};
// softmax(scale q k^T + mask) v -> [n_rows, n_heads, head_dim].
template <typename Real>
std::vector<Real> attention(const Attention& a);

// x / sqrt(mean(x^2) + eps) * weight over `dim` values.
template <typename Real>
std::vector<Real> rms_norm(std::span<const float> x, std::span<const float> weight, double eps);

// Rotates one head by `position`: pair i turns by position * base^(-2i / n_rot); adjacent pairs are (2i, 2i+1),
// half-split pairs (i, i + n_rot/2). Elements past n_rot stay.
template <typename Real>
std::vector<Real> rope(std::span<const float> x, int n_rot, double base, int position, bool adjacent);

// out[r, n] = sum_k w[n, k] x[r, k] (+ bias[n]).  x [n_rows, cols], w [rows, cols].
template <typename Real>
std::vector<Real> matmul(std::span<const float> x, std::span<const float> w, std::span<const float> bias,
                         int64_t n_rows, int64_t rows, int64_t cols);

// sum_k |w[n, k] x[r, k]|: the scale of the rounding error of each output of matmul.
std::vector<double> matmul_magnitude(std::span<const float> x, std::span<const float> w, int64_t n_rows, int64_t rows,
                                     int64_t cols);

// Standard normal values times `sigma`, from a fixed seed: the same on every machine and library.
std::vector<float> normal(size_t n, uint32_t seed, float sigma = 1.0f);

// sqrt(sum (a - b)^2 / sum b^2), b the truth.
double relative_l2(std::span<const float> a, std::span<const double> b);

}  // namespace loci::oracle
