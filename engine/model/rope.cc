// Rotation angles and the --rope-* flags. Formulas: docs/gguf.md section 6.
#include <algorithm>
#include <cmath>

#include "engine/model/arch.h"
#include "kernels/check.h"

namespace loci {
namespace {

// Dimension at which a frequency turns `n` times within the original context.
double correction_dim(double n, const RopeSpec& rope) {
  constexpr double kTwoPi = 6.283185307179586;
  return rope.n_rot * std::log(static_cast<double>(rope.original_ctx) / (n * kTwoPi)) / (2 * std::log(rope.freq_base));
}

void require_finite(const char* flag, double value, bool ok, const char* expected) {
  if (!std::isfinite(value) || !ok) fail(ErrorKind::kInvalidInput, flag, ": expected ", expected, ", found ", value);
}

}  // namespace

void apply_rope_overrides(const RopeOverrides& o, ArchSpec& arch) {
  require_finite("--rope-scale", o.scale, o.scale >= 0, "a number above 0");
  require_finite("--rope-freq-base", o.freq_base, o.freq_base == 0 || o.freq_base >= 1, "a number of at least 1");
  require_finite("--rope-freq-scale", o.freq_scale, o.freq_scale >= 0, "a number above 0");
  require_finite("--yarn-ext-factor", o.yarn_ext_factor, true, "a finite number");
  require_finite("--yarn-attn-factor", o.yarn_attn_factor, o.yarn_attn_factor != 0, "a number above 0");
  require_finite("--yarn-beta-fast", o.yarn_beta_fast, o.yarn_beta_fast != 0, "a number above 0");
  require_finite("--yarn-beta-slow", o.yarn_beta_slow, o.yarn_beta_slow != 0, "a number above 0");
  if (o.yarn_orig_ctx < 0)
    fail(ErrorKind::kInvalidInput, "--yarn-orig-ctx: expected a number above 0, found ", o.yarn_orig_ctx);
  if (!o.scaling_type.empty() && o.scaling_type != "none" && o.scaling_type != "linear" && o.scaling_type != "yarn") {
    fail(ErrorKind::kInvalidInput, "--rope-scaling: expected none, linear or yarn, found '", o.scaling_type, "'");
  }
  for (RopeSpec& rope : arch.ropes) {
    if (!rope.overridable) continue;
    if (o.freq_base > 0) rope.freq_base = o.freq_base;
    if (o.scale > 0) rope.freq_scale = 1 / o.scale;
    if (o.freq_scale > 0) rope.freq_scale = o.freq_scale;
    if (o.scaling_type == "none") rope.freq_scale = 1, rope.ext_factor = 0;
    if (o.scaling_type == "linear") rope.ext_factor = 0;
    if (o.scaling_type == "yarn" && rope.ext_factor == 0) rope.ext_factor = 1;
    if (o.yarn_ext_factor >= 0) rope.ext_factor = o.yarn_ext_factor;
    if (o.yarn_attn_factor > 0) rope.attn_factor = o.yarn_attn_factor;
    if (o.yarn_beta_fast > 0) rope.beta_fast = o.yarn_beta_fast;
    if (o.yarn_beta_slow > 0) rope.beta_slow = o.yarn_beta_slow;
    if (o.yarn_orig_ctx > 0) rope.original_ctx = o.yarn_orig_ctx;
  }
}

void fill_rope_angles(const RopeSpec& rope, std::span<const float> freq_factors, std::span<const int32_t> positions,
                      RopeAngles& angles) {
  const auto half = static_cast<size_t>(rope.n_rot / 2);
  LOCI_CHECK(freq_factors.empty() || freq_factors.size() == half, "frequency factors");
  // Radians per position, the same for all rows.
  std::vector<double> rate(half);
  double magnitude = rope.attn_factor;
  double low = 0, high = 0;
  if (rope.ext_factor != 0) {
    low = std::max(0.0, std::floor(correction_dim(rope.beta_fast, rope)));
    high = std::min(rope.n_rot - 1.0, std::ceil(correction_dim(rope.beta_slow, rope)));
    magnitude *= 1 + 0.1 * std::log(1 / rope.freq_scale);
  }
  for (size_t i = 0; i < half; ++i) {
    const double factor = freq_factors.empty() ? 1 : freq_factors[i];
    const double extrapolated = std::pow(rope.freq_base, -2.0 * static_cast<double>(i) / rope.n_rot) / factor;
    const double interpolated = extrapolated * rope.freq_scale;
    rate[i] = interpolated;
    if (rope.ext_factor != 0) {
      const double along = (static_cast<double>(i) - low) / std::max(0.001, high - low);
      const double ramp = (1 - std::clamp(along, 0.0, 1.0)) * rope.ext_factor;
      rate[i] = interpolated * (1 - ramp) + extrapolated * ramp;
    }
  }
  angles.n_rot = rope.n_rot;
  angles.cos.resize(positions.size() * half);
  angles.sin.resize(positions.size() * half);
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = positions[row] * rate[i];
      angles.cos[row * half + i] = static_cast<float>(std::cos(angle) * magnitude);
      angles.sin[row * half + i] = static_cast<float>(std::sin(angle) * magnitude);
    }
  }
}

}  // namespace loci
