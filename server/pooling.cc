#include "server/pooling.h"

#include <algorithm>
#include <cmath>

namespace loci::server {

void Pooler::add(std::span<const float> row) {
  ++n_rows_;
  if (pooling_ == Pooling::kNone || (pooling_ == Pooling::kFirst && n_rows_ > 1)) return;
  if (pooling_ != Pooling::kMean || sum_.empty()) {
    sum_.assign(row.begin(), row.end());
    return;
  }
  for (size_t i = 0; i < row.size(); ++i) sum_[i] += row[i];
}

std::vector<float> Pooler::result() const {
  std::vector<float> out(sum_.size());
  const double n = pooling_ == Pooling::kMean ? static_cast<double>(std::max<int64_t>(n_rows_, 1)) : 1;
  std::transform(sum_.begin(), sum_.end(), out.begin(), [n](double v) { return static_cast<float>(v / n); });
  return out;
}

void normalize(std::vector<float>& vector, int norm) {
  if (norm < 0) return;
  double length = 0;
  for (const float v : vector) {
    const double size = std::abs(static_cast<double>(v));
    length = norm == 0 ? std::max(length, size) : length + std::pow(size, norm);
  }
  if (norm > 1) length = std::pow(length, 1.0 / norm);
  if (!(length > 0)) return;
  for (float& v : vector) v = static_cast<float>(v / length);
}

}  // namespace loci::server
