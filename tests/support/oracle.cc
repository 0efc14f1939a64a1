// Textbook attention, norm, rope and matmul in double and float.
#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace loci::oracle {

template <typename Real>
std::vector<Real> attention(const Attention& a) {
  const int group = a.n_heads / a.n_kv_heads;
  const size_t n_rows = a.positions.size();
  std::vector<Real> out(n_rows * a.n_heads * a.head_dim);
  std::vector<Real> score;
  for (size_t row = 0; row < n_rows; ++row) {
    const int end = a.positions[row] + 1;
    const int begin = a.window > 0 ? std::max(0, end - a.window) : 0;
    for (int head = 0; head < a.n_heads; ++head) {
      const size_t kv_head = head / group;
      const float* q = a.q + (row * a.n_heads + head) * a.head_dim;
      const auto key = [&](const float* base, int j) {
        return base + (size_t(j) * a.n_kv_heads + kv_head) * a.head_dim;
      };
      score.assign(end, -std::numeric_limits<Real>::infinity());
      Real max = -std::numeric_limits<Real>::infinity();
      for (int j = begin; j < end; ++j) {
        Real dot = 0;
        for (int d = 0; d < a.head_dim; ++d) dot += Real(q[d]) * Real(key(a.k, j)[d]);
        Real s = dot * Real(a.scale);
        if (a.softcap > 0) s = Real(a.softcap) * std::tanh(s / Real(a.softcap));
        score[j] = s;
        max = std::max(max, s);
      }
      if (a.sinks != nullptr) max = std::max(max, Real(a.sinks[head]));
      Real sum = a.sinks != nullptr ? std::exp(Real(a.sinks[head]) - max) : Real(0);
      for (int j = begin; j < end; ++j) sum += score[j] = std::exp(score[j] - max);
      Real* o = out.data() + (row * a.n_heads + head) * a.head_dim;
      for (int d = 0; d < a.head_dim; ++d) {
        Real acc = 0;
        for (int j = begin; j < end; ++j) acc += score[j] / sum * Real(key(a.v, j)[d]);
        o[d] = acc;
      }
    }
  }
  return out;
}

template <typename Real>
std::vector<Real> rms_norm(std::span<const float> x, std::span<const float> weight, double eps) {
  Real sum = 0;
  for (const float value : x) sum += Real(value) * Real(value);
  const Real scale = Real(1) / std::sqrt(sum / Real(x.size()) + Real(eps));
  std::vector<Real> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = Real(x[i]) * scale * Real(weight[i]);
  return out;
}

template <typename Real>
std::vector<Real> rope(std::span<const float> x, int n_rot, double base, int position, bool adjacent) {
  std::vector<Real> out(x.begin(), x.end());
  for (int i = 0; i < n_rot / 2; ++i) {
    const Real angle = Real(position * std::pow(base, -2.0 * i / n_rot));
    const int a = adjacent ? 2 * i : i;
    const int b = adjacent ? 2 * i + 1 : i + n_rot / 2;
    out[a] = Real(x[a]) * std::cos(angle) - Real(x[b]) * std::sin(angle);
    out[b] = Real(x[a]) * std::sin(angle) + Real(x[b]) * std::cos(angle);
  }
  return out;
}

template <typename Real>
std::vector<Real> matmul(std::span<const float> x, std::span<const float> w, std::span<const float> bias,
                         int64_t n_rows, int64_t rows, int64_t cols) {
  std::vector<Real> out(n_rows * rows);
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t n = 0; n < rows; ++n) {
      Real sum = 0;
      for (int64_t k = 0; k < cols; ++k) sum += Real(w[n * cols + k]) * Real(x[r * cols + k]);
      out[r * rows + n] = sum + (bias.empty() ? Real(0) : Real(bias[n]));
    }
  }
  return out;
}

std::vector<double> matmul_magnitude(std::span<const float> x, std::span<const float> w, int64_t n_rows, int64_t rows,
                                     int64_t cols) {
  std::vector<double> out(n_rows * rows);
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < cols; ++k) sum += std::abs(double(w[n * cols + k]) * double(x[r * cols + k]));
      out[r * rows + n] = sum;
    }
  }
  return out;
}

std::vector<float> normal(size_t n, uint32_t seed, float sigma) {
  std::mt19937 random(seed);
  // Box-Muller on raw 32-bit draws: std::normal_distribution differs between libraries.
  const auto uniform = [&] { return (double(random()) + 0.5) / 4294967296.0; };
  std::vector<float> values(n);
  for (float& value : values) {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    value = float(sigma * radius * std::cos(6.283185307179586 * uniform()));
  }
  return values;
}

double relative_l2(std::span<const float> a, std::span<const double> b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

template std::vector<double> attention<double>(const Attention&);
template std::vector<float> attention<float>(const Attention&);
template std::vector<double> rms_norm<double>(std::span<const float>, std::span<const float>, double);
template std::vector<float> rms_norm<float>(std::span<const float>, std::span<const float>, double);
template std::vector<double> rope<double>(std::span<const float>, int, double, int, bool);
template std::vector<float> rope<float>(std::span<const float>, int, double, int, bool);
template std::vector<double> matmul<double>(std::span<const float>, std::span<const float>, std::span<const float>,
                                            int64_t, int64_t, int64_t);
template std::vector<float> matmul<float>(std::span<const float>, std::span<const float>, std::span<const float>,
                                          int64_t, int64_t, int64_t);

}  // namespace loci::oracle
