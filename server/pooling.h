// Pooler: the hidden rows of a text's tokens to one vector.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace loci::server {

enum class Pooling { kNone, kMean, kFirst, kLast };  // kNone: no vector is wanted

class Pooler {
 public:
  explicit Pooler(Pooling pooling = Pooling::kNone) : pooling_(pooling) {}
  void add(std::span<const float> row);
  std::vector<float> result() const;

 private:
  Pooling pooling_;
  int64_t n_rows_ = 0;
  std::vector<double> sum_;  // or the one row
};

// Scales in place. 2: Euclidean length 1; 0: largest absolute value 1; 1: sum of absolute values 1; p above 2: p-norm
// 1; below 0: not at all. A vector of zeros stays as it is.
void normalize(std::vector<float>& vector, int norm);

}  // namespace loci::server
