// exp and what is built on it, lane by lane: the same bits in every lane, for every ISA, whatever the other lanes hold.
// Pasted into the ISA units (no include guard). Errors measured by tests/kernels/cpu/vec_math_test.cc.

// e^x, relative error <= 1.3e-7 for normal results. Underflows gradually to 0, overflows to +inf, NaN stays NaN.
// Cody-Waite reduction x = n ln2 + r, |r| <= ln2/2, then a degree-6 polynomial with p(0) exactly 1: vec_exp(0) == 1.
LOCI_HD VecF vec_exp(VecF x) {
  const VecF clamped = max(VecF::splat(-104.0f), min(VecF::splat(89.0f), x));  // NaN passes through as operand b
  const VecI n = round_to_int(clamped * VecF::splat(1.44269504088896341f));
  const VecF nf = to_float(n);
  VecF r = fma(nf, VecF::splat(-0.693145752f), clamped);  // ln2 to 15 bits: nf * high part is exact
  r = fma(nf, VecF::splat(-1.42860682e-6f), r);
  VecF p = VecF::splat(0.00138143206f);  // minimax in relative error: 3.1e-9 before rounding
  p = fma(p, r, VecF::splat(0.00836885069f));
  p = fma(p, r, VecF::splat(0.0416684002f));
  p = fma(p, r, VecF::splat(0.166665196f));
  p = fma(p, r, VecF::splat(0.49999994f));
  p = fma(p, r, VecF::splat(1.0f));
  p = fma(p, r, VecF::splat(1.0f));
  // 2^n in two factors, so that neither leaves the range of normal numbers.
  const VecI half = sra<1>(n);
  const VecF a = as_float(shl<23>(half + VecI::splat(127)));
  const VecF b = as_float(shl<23>(n - half + VecI::splat(127)));
  return p * a * b;
}

// x / (1 + e^-x)
LOCI_HD VecF vec_silu(VecF x) { return x / (VecF::splat(1.0f) + vec_exp(VecF::zero() - x)); }

// 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3)
LOCI_HD VecF vec_gelu_tanh(VecF x) {
  const VecF cubic = fma(x * x, VecF::splat(0.044715f), VecF::splat(1.0f));
  const VecF minus_2u = x * cubic * VecF::splat(-1.59576912160573f);
  return x / (VecF::splat(1.0f) + vec_exp(minus_2u));
}

// tanh: an odd polynomial for |x| < 0.625 (no cancellation), 1 - 2 / (e^2|x| + 1) beyond.
LOCI_HD VecF vec_tanh(VecF x) {
  const VecF magnitude = abs(x);
  const VecF s = x * x;
  VecF p = VecF::splat(-0.00571704516f);  // minimax in relative error: 4.1e-9 before rounding
  p = fma(p, s, VecF::splat(0.020650588f));
  p = fma(p, s, VecF::splat(-0.0537434965f));
  p = fma(p, s, VecF::splat(0.133314908f));
  p = fma(p, s, VecF::splat(-0.333332837f));
  const VecF small = fma(p * s, x, x);
  const VecF e = vec_exp(magnitude + magnitude);
  const VecF large = VecF::splat(1.0f) - VecF::splat(2.0f) / (e + VecF::splat(1.0f));
  const VecF signed_large = as_float(as_int(large) | (as_int(x) & VecI::splat(INT32_MIN)));
  return select(magnitude < VecF::splat(0.625f), small, signed_large);
}
