// CostCurve: how long a forward pass takes, by its number of rows, learned from passes that took place.
#pragma once
#include <cstdint>
#include <vector>

namespace loci {

// ms(n) = scale * shape(n). The scale follows the machine's load and the depth of the context within a few passes;
// the shape, relative to one row, is learned slowly.
class CostCurve {
 public:
  // slope: cost of a further row relative to the first, until it has been seen.
  explicit CostCurve(double slope) : slope_(slope) {}

  void observe(int64_t rows, double ms);
  bool known() const { return scale_ms_ > 0; }
  // For curves that have not been observed: assumes that one row takes `ms`.
  void assume(double ms) {
    if (!known()) scale_ms_ = ms;
  }
  double ms(int64_t rows) const { return scale_ms_ * shape(rows); }

  static constexpr int64_t kMaxRows = 128;  // passes with more rows are not learned from

 private:
  struct Point {
    double shape = 0;
    int n_seen = 0;
  };
  double shape(int64_t rows) const;

  double slope_;
  double scale_ms_ = 0;
  std::vector<Point> points_;  // [rows]
};

}  // namespace loci
