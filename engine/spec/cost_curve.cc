#include "engine/spec/cost_curve.h"

#include <algorithm>
#include <cmath>

namespace loci {
namespace {

constexpr double kScaleStep = 0.1;   // share of a surprise that the scale takes
constexpr double kShapeStep = 0.05;  // and the shape, once a number of rows is well known
constexpr double kOutlier = 2;       // longer passes were interrupted: they count as this many times the estimate

}  // namespace

double CostCurve::shape(int64_t rows) const {
  const auto seen = [&](int64_t n) { return points_[static_cast<size_t>(n)].n_seen > 0; };
  const auto size = static_cast<int64_t>(points_.size());
  int64_t below = std::min(rows, size - 1), above = rows;
  while (below >= 1 && !seen(below)) --below;
  while (above < size && !seen(above)) ++above;
  const auto at = [&](int64_t n) { return points_[static_cast<size_t>(n)].shape; };
  const double steps = static_cast<double>(rows);
  if (below < 1 && above >= size) return 1 + slope_ * (steps - 1);
  if (below == rows) return at(rows);
  if (above >= size) return at(below) + slope_ * (steps - static_cast<double>(below));
  // One row costs 1 when nothing else is known.
  const double low = below < 1 ? 1 : at(below), high = at(above);
  const auto low_rows = static_cast<double>(std::max<int64_t>(below, 1));
  return low + (high - low) * (steps - low_rows) / (static_cast<double>(above) - low_rows);
}

void CostCurve::observe(int64_t rows, double ms) {
  if (rows < 1 || rows > kMaxRows || !(ms > 0)) return;
  if (points_.size() <= static_cast<size_t>(rows)) points_.resize(static_cast<size_t>(rows) + 1);
  if (!known()) scale_ms_ = ms / shape(rows);
  Point& point = points_[static_cast<size_t>(rows)];
  const double expected = shape(rows);
  if (point.n_seen == 0) point.shape = expected;
  const bool first = point.n_seen == 0;
  const double seen = first ? ms : std::min(ms, kOutlier * scale_ms_ * expected);
  const double surprise = std::log(seen / (scale_ms_ * expected));
  point.shape *= std::exp(surprise * std::max(1.0 / (1 + point.n_seen), kShapeStep));
  if (!first) scale_ms_ *= std::exp(surprise * kScaleStep);
  ++point.n_seen;
}

}  // namespace loci
