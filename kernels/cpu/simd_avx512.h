// Sixteen lanes per vector (AVX-512 F, BW, DQ, VL; with VNNI where the unit is compiled for it).
// simd_avx2.h explains the operations.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "kernels/hd.h"

#if defined(__AVX512VNNI__)
#define LOCI_WIDE_DOT 1
#else
#define LOCI_WIDE_DOT 0
#endif
#define LOCI_PANEL_PASSES "kernels/cpu/panel_zmm.inl"

namespace loci::cpu::LOCI_ISA {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kTokensPerPass = 4;  // the long kernels take minutes to compile with every access checked
#else
constexpr int kTokensPerPass = 16;
#endif

struct VecI {
  static constexpr int kLanes = 16;
  __m512i v;
  LOCI_HD static VecI zero() { return {_mm512_setzero_si512()}; }
  LOCI_HD static VecI splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
  LOCI_HD static VecI load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  LOCI_HD static VecI load_u8(const uint8_t* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  LOCI_HD static VecI load_i8(const int8_t* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  LOCI_HD static VecI load_u4(const uint8_t* p, int) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i both = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4));
    return {_mm512_cvtepu8_epi32(_mm_and_si128(both, _mm_set1_epi8(15)))};
  }
  LOCI_HD void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
  LOCI_HD void store_i8(int8_t* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v)); }
};
LOCI_HD VecI operator+(VecI a, VecI b) { return {_mm512_add_epi32(a.v, b.v)}; }
LOCI_HD VecI operator-(VecI a, VecI b) { return {_mm512_sub_epi32(a.v, b.v)}; }
LOCI_HD VecI operator&(VecI a, VecI b) { return {_mm512_and_si512(a.v, b.v)}; }
LOCI_HD VecI operator|(VecI a, VecI b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kBits>
LOCI_HD VecI shl(VecI a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecI shr(VecI a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecI sra(VecI a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
LOCI_HD VecI max(VecI a, VecI b) { return {_mm512_max_epi32(a.v, b.v)}; }
LOCI_HD VecI min(VecI a, VecI b) { return {_mm512_min_epi32(a.v, b.v)}; }
LOCI_HD int32_t reduce_max(VecI a) { return _mm512_reduce_max_epi32(a.v); }
LOCI_HD int32_t reduce_add(VecI a) { return _mm512_reduce_add_epi32(a.v); }

// sums[h][p] of 32 values in two vectors: of half h, elements 4g and 4g + 1 (p = 0) or 4g + 2 and 4g + 3 (p = 1) of
// every group g.
LOCI_HD void pair_sums(const VecI values[2], int32_t sums[2][2]) {
  for (int h = 0; h < 2; ++h) {
    const __m256i quarters =
        _mm256_add_epi32(_mm512_castsi512_si256(values[h].v), _mm512_extracti64x4_epi64(values[h].v, 1));
    const __m128i group = _mm_add_epi32(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256(quarters, 1));
    const __m128i pairs = _mm_hadd_epi32(group, group);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums[h]), pairs);
  }
}

struct Mask {
  __mmask16 m;
};

struct VecF {
  static constexpr int kLanes = 16;
  __m512 v;
  LOCI_HD static VecF zero() { return {_mm512_setzero_ps()}; }
  LOCI_HD static VecF splat(float x) { return {_mm512_set1_ps(x)}; }
  LOCI_HD static VecF load(const float* p) { return {_mm512_loadu_ps(p)}; }
  LOCI_HD static VecF load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
  LOCI_HD static VecF load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  LOCI_HD static VecF load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  LOCI_HD void store(float* p) const { _mm512_storeu_ps(p, v); }
  LOCI_HD void store_first(float* p, int n) const { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

 private:
  LOCI_HD static __mmask16 first_lanes(int n) {
    if (n >= 16) return static_cast<__mmask16>(0xffff);
    return n <= 0 ? static_cast<__mmask16>(0) : static_cast<__mmask16>((1u << n) - 1);
  }
};
LOCI_HD VecF operator+(VecF a, VecF b) { return {_mm512_add_ps(a.v, b.v)}; }
LOCI_HD VecF operator-(VecF a, VecF b) { return {_mm512_sub_ps(a.v, b.v)}; }
LOCI_HD VecF operator*(VecF a, VecF b) { return {_mm512_mul_ps(a.v, b.v)}; }
LOCI_HD VecF operator/(VecF a, VecF b) { return {_mm512_div_ps(a.v, b.v)}; }
LOCI_HD VecF fma(VecF a, VecF b, VecF c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
LOCI_HD VecF max(VecF a, VecF b) { return {_mm512_max_ps(a.v, b.v)}; }  // b when either is NaN
LOCI_HD VecF min(VecF a, VecF b) { return {_mm512_min_ps(a.v, b.v)}; }
LOCI_HD VecF sqrt(VecF a) { return {_mm512_sqrt_ps(a.v)}; }
LOCI_HD VecI as_int(VecF a) { return {_mm512_castps_si512(a.v)}; }
LOCI_HD VecF as_float(VecI a) { return {_mm512_castsi512_ps(a.v)}; }
LOCI_HD VecF abs(VecF a) { return as_float(as_int(a) & VecI::splat(0x7fffffff)); }
LOCI_HD VecF to_float(VecI a) { return {_mm512_cvtepi32_ps(a.v)}; }
LOCI_HD VecI round_to_int(VecF a) { return {_mm512_cvtps_epi32(a.v)}; }
LOCI_HD Mask operator<(VecF a, VecF b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
LOCI_HD Mask operator>(VecF a, VecF b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
LOCI_HD VecF select(Mask m, VecF yes, VecF no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }

struct VecB {
  __m512i v;
  LOCI_HD static VecB splat(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  LOCI_HD static VecB load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
};
LOCI_HD VecB operator&(VecB a, VecB b) { return {_mm512_and_si512(a.v, b.v)}; }
LOCI_HD VecB operator|(VecB a, VecB b) { return {_mm512_or_si512(a.v, b.v)}; }
LOCI_HD VecB operator-(VecB a, VecB b) { return {_mm512_sub_epi8(a.v, b.v)}; }
template <int kBits>
LOCI_HD VecB shl(VecB a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecB shr(VecB a) {
  return {_mm512_srli_epi16(a.v, kBits)};
}
LOCI_HD VecI as_int(VecB a) { return {a.v}; }
struct Table16 {
  __m512i v;
  LOCI_HD static Table16 load(const uint8_t* p) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
};
LOCI_HD VecB lookup(Table16 table, VecB codes) { return {_mm512_shuffle_epi8(table.v, codes.v)}; }

LOCI_HD __m512i broadcast4(const int8_t* q) {
  int32_t word;
  __builtin_memcpy(&word, q, sizeof(word));
  return _mm512_set1_epi32(word);
}
#if LOCI_WIDE_DOT
// In assembly for the embedded broadcast: g++ 12.2 loads the broadcast into a register first, which costs an
// instruction and, worse, the register.
LOCI_HD VecI dot4(VecI acc, VecB w, const int8_t* q) {
  using Word [[gnu::may_alias, gnu::aligned(1)]] = int32_t;
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc.v) : "v"(w.v), "m"(*reinterpret_cast<const Word*>(q)));
  return acc;
}
#else
struct VecPairs {
  __m512i v;
};
LOCI_HD VecPairs mul_pairs(VecB u, const int8_t* q) { return {_mm512_maddubs_epi16(u.v, broadcast4(q))}; }
LOCI_HD VecPairs mul_pairs_offset128(VecB u, const int8_t* q) {
  // |u - 128| times q, negated where u < 128: AVX-512 has no vpsignb.
  const __m512i w = _mm512_xor_si512(u.v, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i a = broadcast4(q);
  const __m512i signed_a = _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(w), _mm512_setzero_si512(), a);
  return {_mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_a)};
}
LOCI_HD VecPairs operator+(VecPairs a, VecPairs b) { return {_mm512_add_epi16(a.v, b.v)}; }
LOCI_HD VecI widen(VecPairs a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi16(1))}; }
LOCI_HD void pin(VecPairs& a) { asm volatile("" : "+v"(a.v)); }
#endif

LOCI_HD void store_f16(uint16_t* p, VecF a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
LOCI_HD void store_u16(uint16_t* p, VecI a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

}  // namespace
}  // namespace loci::cpu::LOCI_ISA
