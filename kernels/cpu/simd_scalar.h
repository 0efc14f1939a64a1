// One lane per vector: the portable fallback, and the plain twin that every SIMD build is compared with bit by bit.
// simd_avx2.h is the list of operations that each of these headers must offer.
#pragma once
#include <stdint.h>

#include "kernels/hd.h"
#include "kernels/quant/half.h"

// 1: unsigned x signed byte dots (dot4) accumulate in 32 bits without saturation, so codes may use all 8 bits.
#define LOCI_WIDE_DOT 1
#define LOCI_PANEL_PASSES "kernels/cpu/panel_zmm.inl"

namespace loci::cpu::LOCI_ISA {
namespace {

// Token columns that one pass over a panel computes; tokens beyond it take another pass.
constexpr int kTokensPerPass = 4;

struct VecI {
  static constexpr int kLanes = 1;
  int32_t v;
  LOCI_HD static VecI zero() { return {0}; }
  LOCI_HD static VecI splat(int32_t x) { return {x}; }
  LOCI_HD static VecI load(const int32_t* p) { return {*p}; }
  LOCI_HD static VecI load_u8(const uint8_t* p) { return {*p}; }
  LOCI_HD static VecI load_i8(const int8_t* p) { return {*p}; }
  LOCI_HD static VecI load_u4(const uint8_t* p, int part) { return {part < 8 ? p[part] & 15 : p[part - 8] >> 4}; }
  LOCI_HD void store(int32_t* p) const { *p = v; }
  LOCI_HD void store_i8(int8_t* p) const { *p = static_cast<int8_t>(v); }
};
LOCI_HD VecI wrap(uint32_t bits) { return {static_cast<int32_t>(bits)}; }
LOCI_HD uint32_t bits(VecI a) { return static_cast<uint32_t>(a.v); }
LOCI_HD VecI operator+(VecI a, VecI b) { return wrap(bits(a) + bits(b)); }
LOCI_HD VecI operator-(VecI a, VecI b) { return wrap(bits(a) - bits(b)); }
LOCI_HD VecI operator&(VecI a, VecI b) { return wrap(bits(a) & bits(b)); }
LOCI_HD VecI operator|(VecI a, VecI b) { return wrap(bits(a) | bits(b)); }
template <int kBits>
LOCI_HD VecI shl(VecI a) {
  return wrap(bits(a) << kBits);
}
template <int kBits>
LOCI_HD VecI shr(VecI a) {
  return wrap(bits(a) >> kBits);
}
template <int kBits>
LOCI_HD VecI sra(VecI a) {
  return {a.v >> kBits};
}
LOCI_HD VecI max(VecI a, VecI b) { return a.v > b.v ? a : b; }
LOCI_HD VecI min(VecI a, VecI b) { return a.v < b.v ? a : b; }
LOCI_HD int32_t reduce_max(VecI a) { return a.v; }
LOCI_HD int32_t reduce_add(VecI a) { return a.v; }

// sums[h][p] of 32 values: of half h, elements 4g and 4g + 1 (p = 0) or 4g + 2 and 4g + 3 (p = 1) of every group g.
LOCI_HD void pair_sums(const VecI values[32], int32_t sums[2][2]) {
  for (int h = 0; h < 2; ++h) sums[h][0] = sums[h][1] = 0;
  for (int i = 0; i < 32; ++i) sums[i / 16][i / 2 % 2] += values[i].v;
}

struct Mask {
  bool m;
};

struct VecF {
  static constexpr int kLanes = 1;
  float v;
  LOCI_HD static VecF zero() { return {0.0f}; }
  LOCI_HD static VecF splat(float x) { return {x}; }
  LOCI_HD static VecF load(const float* p) { return {*p}; }
  LOCI_HD static VecF load_first(const float* p, int n) { return {n > 0 ? *p : 0.0f}; }
  LOCI_HD static VecF load_f16(const uint16_t* p) { return {quant::half_to_float(*p)}; }
  LOCI_HD static VecF load_bf16(const uint16_t* p) { return {quant::bfloat_to_float(*p)}; }
  LOCI_HD void store(float* p) const { *p = v; }
  LOCI_HD void store_first(float* p, int n) const {
    if (n > 0) *p = v;
  }
};
LOCI_HD VecF operator+(VecF a, VecF b) { return {a.v + b.v}; }
LOCI_HD VecF operator-(VecF a, VecF b) { return {a.v - b.v}; }
LOCI_HD VecF operator*(VecF a, VecF b) { return {a.v * b.v}; }
LOCI_HD VecF operator/(VecF a, VecF b) { return {a.v / b.v}; }
LOCI_HD VecF fma(VecF a, VecF b, VecF c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
LOCI_HD VecF max(VecF a, VecF b) { return a.v > b.v ? a : b; }  // b when either is NaN, as the SSE instruction
LOCI_HD VecF min(VecF a, VecF b) { return a.v < b.v ? a : b; }
LOCI_HD VecF sqrt(VecF a) { return {__builtin_sqrtf(a.v)}; }
LOCI_HD VecI as_int(VecF a) { return wrap(quant::float_bits(a.v)); }
LOCI_HD VecF as_float(VecI a) { return {quant::float_from_bits(bits(a))}; }
LOCI_HD VecF abs(VecF a) { return as_float(wrap(quant::float_bits(a.v) & 0x7fffffffu)); }
LOCI_HD VecF to_float(VecI a) { return {static_cast<float>(a.v)}; }
// Rounds to the nearest even integer. Beyond the int32 range and for NaN: INT32_MIN, as the SSE instruction.
LOCI_HD VecI round_to_int(VecF a) {
  if (!(a.v >= -2147483648.0f && a.v < 2147483648.0f)) return {INT32_MIN};
  // Adding 1.5 * 2^23 leaves an integer in the low mantissa bits; larger magnitudes are integers already.
  if (a.v > -4194304.0f && a.v < 4194304.0f) {
    return wrap(quant::float_bits(a.v + 12582912.0f) - quant::float_bits(12582912.0f));
  }
  const float truncated = static_cast<float>(static_cast<int32_t>(a.v));
  const float rest = a.v - truncated;
  int32_t result = static_cast<int32_t>(a.v);
  if (rest > 0.5f || (rest == 0.5f && (result & 1) != 0)) ++result;
  if (rest < -0.5f || (rest == -0.5f && (result & 1) != 0)) --result;
  return {result};
}
LOCI_HD Mask operator<(VecF a, VecF b) { return {a.v < b.v}; }
LOCI_HD Mask operator>(VecF a, VecF b) { return {a.v > b.v}; }
LOCI_HD VecF select(Mask m, VecF yes, VecF no) { return m.m ? yes : no; }

// 4 bytes per lane. Shifts act on wider units: mask away what crosses a byte.
struct VecB {
  uint32_t v;
  LOCI_HD static VecB splat(uint8_t x) { return {x * 0x01010101u}; }
  LOCI_HD static VecB load(const uint8_t* p) {
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return {word};
  }
};
LOCI_HD VecB operator&(VecB a, VecB b) { return {a.v & b.v}; }
LOCI_HD VecB operator|(VecB a, VecB b) { return {a.v | b.v}; }
LOCI_HD VecB operator-(VecB a, VecB b) {
  constexpr uint32_t kTop = 0x80808080u;  // no borrow leaves a byte
  return {((a.v | kTop) - (b.v & ~kTop)) ^ ((a.v ^ ~b.v) & kTop)};
}
template <int kBits>
LOCI_HD VecB shl(VecB a) {
  return {a.v << kBits};
}
template <int kBits>
LOCI_HD VecB shr(VecB a) {
  return {a.v >> kBits};
}
LOCI_HD VecI as_int(VecB a) { return wrap(a.v); }
// table[code] for codes 0..15.
struct Table16 {
  const uint8_t* bytes;
  LOCI_HD static Table16 load(const uint8_t* p) { return {p}; }
};
LOCI_HD VecB lookup(Table16 table, VecB codes) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<uint32_t>(table.bytes[(codes.v >> (8 * i)) & 15]) << (8 * i);
  return {out};
}

// acc + the dot product of each lane's four unsigned bytes with four signed bytes at q.
LOCI_HD VecI dot4(VecI acc, VecB w, const int8_t* q) {
  int32_t sum = acc.v;
  for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>((w.v >> (8 * i)) & 255) * q[i];
  return {sum};
}

LOCI_HD void store_f16(uint16_t* p, VecF a) { *p = quant::float_to_half(a.v); }
LOCI_HD void store_u16(uint16_t* p, VecI a) { *p = static_cast<uint16_t>(a.v); }

}  // namespace
}  // namespace loci::cpu::LOCI_ISA
