// Eight lanes per vector (AVX2, FMA, F16C; with AVX-VNNI where the unit is compiled for it). Also the list of
// operations that every simd_*.h offers:
//   VecF, VecI  kLanes lanes of f32 / int32;  VecB  4 bytes per lane;  Mask  one truth value per lane.
// Each ISA's unit gets its own copy in its own anonymous namespace, so that no symbol leaves it.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "kernels/hd.h"

// Without VNNI byte dots go through 16-bit sums (vpmaddubsw): codes must stay small, see IntegerSum in panel_ymm.inl.
#if defined(__AVXVNNI__)
#define LOCI_WIDE_DOT 1
#else
#define LOCI_WIDE_DOT 0
#endif
#define LOCI_PANEL_PASSES "kernels/cpu/panel_ymm.inl"

namespace loci::cpu::LOCI_ISA {
namespace {

constexpr int kTokensPerPass = 4;

struct VecI {
  static constexpr int kLanes = 8;
  __m256i v;
  LOCI_HD static VecI zero() { return {_mm256_setzero_si256()}; }
  LOCI_HD static VecI splat(int32_t x) { return {_mm256_set1_epi32(x)}; }
  LOCI_HD static VecI load(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  LOCI_HD static VecI load_u8(const uint8_t* p) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
  }
  LOCI_HD static VecI load_i8(const int8_t* p) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
  }
  // Lanes part * kLanes .. of the 16 codes in the 8 bytes at p: the low halves, then the high halves.
  LOCI_HD static VecI load_u4(const uint8_t* p, int part) {
    const __m256i bytes = load_u8(p).v;
    return {part == 0 ? _mm256_and_si256(bytes, _mm256_set1_epi32(15)) : _mm256_srli_epi32(bytes, 4)};
  }
  LOCI_HD void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  // The low byte of each lane. REQUIRES: values in -128..127.
  LOCI_HD void store_i8(int8_t* p) const {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
};
LOCI_HD VecI operator+(VecI a, VecI b) { return {_mm256_add_epi32(a.v, b.v)}; }
LOCI_HD VecI operator-(VecI a, VecI b) { return {_mm256_sub_epi32(a.v, b.v)}; }
LOCI_HD VecI operator&(VecI a, VecI b) { return {_mm256_and_si256(a.v, b.v)}; }
LOCI_HD VecI operator|(VecI a, VecI b) { return {_mm256_or_si256(a.v, b.v)}; }
template <int kBits>
LOCI_HD VecI shl(VecI a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecI shr(VecI a) {
  return {_mm256_srli_epi32(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecI sra(VecI a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}
LOCI_HD VecI max(VecI a, VecI b) { return {_mm256_max_epi32(a.v, b.v)}; }
LOCI_HD VecI min(VecI a, VecI b) { return {_mm256_min_epi32(a.v, b.v)}; }
LOCI_HD int32_t reduce_max(VecI a) {
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return _mm_cvtsi128_si32(x);
}
LOCI_HD int32_t reduce_add(VecI a) {
  __m128i x = _mm_add_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return _mm_cvtsi128_si32(x);
}

// sums[h][p] of 32 values in four vectors: of half h, elements 4g and 4g + 1 (p = 0) or 4g + 2 and 4g + 3 (p = 1) of
// every group g.
LOCI_HD void pair_sums(const VecI values[4], int32_t sums[2][2]) {
  for (int h = 0; h < 2; ++h) {
    const __m256i two = _mm256_add_epi32(values[2 * h].v, values[2 * h + 1].v);
    const __m128i group = _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums[h]), _mm_hadd_epi32(group, group));
  }
}

struct Mask {
  __m256 m;
};

struct VecF {
  static constexpr int kLanes = 8;
  __m256 v;
  LOCI_HD static VecF zero() { return {_mm256_setzero_ps()}; }
  LOCI_HD static VecF splat(float x) { return {_mm256_set1_ps(x)}; }
  LOCI_HD static VecF load(const float* p) { return {_mm256_loadu_ps(p)}; }
  // The first n lanes, the others zero; touches no byte past them. n <= 0: none; n >= kLanes: all.
  LOCI_HD static VecF load_first(const float* p, int n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
  LOCI_HD static VecF load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  LOCI_HD static VecF load_bf16(const uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  LOCI_HD void store(float* p) const { _mm256_storeu_ps(p, v); }
  LOCI_HD void store_first(float* p, int n) const { _mm256_maskstore_ps(p, first_lanes(n), v); }

 private:
  LOCI_HD static __m256i first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};
LOCI_HD VecF operator+(VecF a, VecF b) { return {_mm256_add_ps(a.v, b.v)}; }
LOCI_HD VecF operator-(VecF a, VecF b) { return {_mm256_sub_ps(a.v, b.v)}; }
LOCI_HD VecF operator*(VecF a, VecF b) { return {_mm256_mul_ps(a.v, b.v)}; }
LOCI_HD VecF operator/(VecF a, VecF b) { return {_mm256_div_ps(a.v, b.v)}; }
LOCI_HD VecF fma(VecF a, VecF b, VecF c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
LOCI_HD VecF max(VecF a, VecF b) { return {_mm256_max_ps(a.v, b.v)}; }  // b when either is NaN
LOCI_HD VecF min(VecF a, VecF b) { return {_mm256_min_ps(a.v, b.v)}; }
LOCI_HD VecF sqrt(VecF a) { return {_mm256_sqrt_ps(a.v)}; }
LOCI_HD VecI as_int(VecF a) { return {_mm256_castps_si256(a.v)}; }
LOCI_HD VecF as_float(VecI a) { return {_mm256_castsi256_ps(a.v)}; }
LOCI_HD VecF abs(VecF a) { return as_float(as_int(a) & VecI::splat(0x7fffffff)); }
LOCI_HD VecF to_float(VecI a) { return {_mm256_cvtepi32_ps(a.v)}; }
LOCI_HD VecI round_to_int(VecF a) { return {_mm256_cvtps_epi32(a.v)}; }  // nearest even; INT32_MIN out of range
LOCI_HD Mask operator<(VecF a, VecF b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
LOCI_HD Mask operator>(VecF a, VecF b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
LOCI_HD VecF select(Mask m, VecF yes, VecF no) { return {_mm256_blendv_ps(no.v, yes.v, m.m)}; }

// 4 bytes per lane. Shifts act on wider units: mask away what crosses a byte.
struct VecB {
  __m256i v;
  LOCI_HD static VecB splat(uint8_t x) { return {_mm256_set1_epi8(static_cast<char>(x))}; }
  LOCI_HD static VecB load(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  // The four bytes at p in every lane.
  LOCI_HD static VecB broadcast4(const int8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return {_mm256_set1_epi32(word)};
  }
};
LOCI_HD VecB operator&(VecB a, VecB b) { return {_mm256_and_si256(a.v, b.v)}; }
LOCI_HD VecB operator|(VecB a, VecB b) { return {_mm256_or_si256(a.v, b.v)}; }
LOCI_HD VecB operator^(VecB a, VecB b) { return {_mm256_xor_si256(a.v, b.v)}; }
LOCI_HD VecB abs(VecB a) { return {_mm256_abs_epi8(a.v)}; }
LOCI_HD VecB with_sign_of(VecB a, VecB sign) { return {_mm256_sign_epi8(a.v, sign.v)}; }  // 0 where sign is 0
template <int kBits>
LOCI_HD VecB shl(VecB a) {
  return {_mm256_slli_epi16(a.v, kBits)};
}
template <int kBits>
LOCI_HD VecB shr(VecB a) {
  return {_mm256_srli_epi16(a.v, kBits)};
}
LOCI_HD VecI as_int(VecB a) { return {a.v}; }
struct Table16 {
  __m256i v;
  LOCI_HD static Table16 load(const uint8_t* p) {
    return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
};
LOCI_HD VecB lookup(Table16 table, VecB codes) { return {_mm256_shuffle_epi8(table.v, codes.v)}; }

#if LOCI_WIDE_DOT
// acc + the dot product of each lane's four unsigned bytes with its four signed bytes of q.
LOCI_HD VecI dot4(VecI acc, VecB w, VecB q) { return {_mm256_dpbusd_avx_epi32(acc.v, w.v, q.v)}; }
LOCI_HD VecI dot4(VecI acc, VecB w, const int8_t* q) { return dot4(acc, w, VecB::broadcast4(q)); }
#endif

// Two 16-bit sums per lane, each of two products of an unsigned byte of u and a signed byte of q.
struct VecPairs {
  __m256i v;
  LOCI_HD static VecPairs zero() { return {_mm256_setzero_si256()}; }
  // The two 16-bit numbers at p in every lane.
  LOCI_HD static VecPairs splat(const uint8_t* p) { return {VecB::broadcast4(reinterpret_cast<const int8_t*>(p)).v}; }
};
LOCI_HD VecPairs mul_pairs(VecB u, VecB q) { return {_mm256_maddubs_epi16(u.v, q.v)}; }
LOCI_HD VecPairs operator+(VecPairs a, VecPairs b) { return {_mm256_add_epi16(a.v, b.v)}; }
template <int kBits>
LOCI_HD VecPairs shl(VecPairs a) {
  return {_mm256_slli_epi16(a.v, kBits)};
}
LOCI_HD VecI widen(VecPairs a) { return {_mm256_madd_epi16(a.v, _mm256_set1_epi16(1))}; }
// Keeps the compiler from computing all products first and spilling them.
LOCI_HD void pin(VecPairs& a) { asm volatile("" : "+x"(a.v)); }
LOCI_HD void pin(VecI& a) { asm volatile("" : "+x"(a.v)); }

// To 16-bit floats, round to nearest even.
LOCI_HD void store_f16(uint16_t* p, VecF a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
// The low 16 bits of each lane. REQUIRES: values in 0..65535.
LOCI_HD void store_u16(uint16_t* p, VecI a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1)));
}

}  // namespace
}  // namespace loci::cpu::LOCI_ISA
