// 2^x for attention and the soft cap of a row. Pasted into the ISA units; correctly rounded operations in a fixed
// order, so that every instruction set gives the same bits.

// 2^x for x <= 127. Exactly 1 at 0, exactly 0 below -125 (and at -inf), NaN stays NaN; relative error <= 1.3e-7.
// x = n + f with n the nearest integer: a degree-6 minimax polynomial on [-0.5, 0.5], then n added to the exponent.
LOCI_HD VecF vec_exp2(VecF x) {
  const VecF magic = VecF::splat(12582912.0f);  // 1.5 * 2^23: the sum's low bits are n, rounded to nearest even
  const VecF shifted = x + magic;
  const VecF f = x - (shifted - magic);
  VecF p = VecF::splat(1.53533620e-4f);
  p = fma(p, f, VecF::splat(1.33988739e-3f));
  p = fma(p, f, VecF::splat(9.61843692e-3f));
  p = fma(p, f, VecF::splat(5.55033237e-2f));
  p = fma(p, f, VecF::splat(2.40226477e-1f));
  p = fma(p, f, VecF::splat(6.93147182e-1f));
  p = fma(p, f, VecF::splat(1.0f));
  const VecF scaled = as_float(as_int(p) + shl<23>(as_int(shifted)));
  return select(x < VecF::splat(-125.0f), VecF::zero(), scaled);
}

// One value through vec_exp2: the bits of any lane.
LOCI_HD float exp2_one(float x) {
  float lanes[VecF::kLanes];
  vec_exp2(VecF::splat(x)).store(lanes);
  return lanes[0];
}

// x = cap * tanh(x / cap).
void softcap_row(float* x, int64_t n, float cap) noexcept {
  const VecF inverse = VecF::splat(1.0f / cap);
  const VecF factor = VecF::splat(cap);
  for (int64_t i = 0; i < n; i += VecF::kLanes) {
    const int count = n - i < VecF::kLanes ? static_cast<int>(n - i) : VecF::kLanes;
    (vec_tanh(VecF::load_first(x + i, count) * inverse) * factor).store_first(x + i, count);
  }
}

void vec_exp2_all(const float* x, float* y, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i += VecF::kLanes) {
    const int count = n - i < VecF::kLanes ? static_cast<int>(n - i) : VecF::kLanes;
    vec_exp2(VecF::load_first(x + i, count)).store_first(y + i, count);
  }
}
