// Peak loops of one instruction set (roofline_kernels.h); compiled once per ISA, as isa_kernels.cc, and once more for
// avx512bf16, whose bf16 loop serves the AVX-512 sets.
#include LOCI_SIMD_HEADER
#include "kernels/cpu/roofline_kernels.h"

#define LOCI_STR2(x) #x
#define LOCI_STR(x) LOCI_STR2(x)

namespace loci::cpu::LOCI_ISA {
namespace {

// Enough independent chains to hide the latency of two multiply-add units, few enough for 16 registers.
constexpr int kChains = 12;
#if LOCI_WIDE_DOT
constexpr int64_t kInt8MacsPerRound = int64_t{4} * VecI::kLanes * kChains;
#else
constexpr int kPairs = 4, kGroups = 8;
constexpr int64_t kInt8MacsPerRound = int64_t{4} * VecI::kLanes * kPairs * kGroups;
#endif

template <int kCount>
int32_t total(const VecI (&sums)[kCount]) {
  VecI all = VecI::zero();
  for (const VecI& sum : sums) all = all + sum;
  int32_t lanes[VecI::kLanes];
  all.store(lanes);
  uint32_t result = 0;
  for (const int32_t lane : lanes) result += static_cast<uint32_t>(lane);
  return static_cast<int32_t>(result);
}

int32_t read(const uint8_t* data, size_t n) noexcept {
  constexpr size_t kStep = sizeof(VecB);
  constexpr int kStreams = 8;  // sums, so that no load waits for an addition
  VecI sums[kStreams];
  for (VecI& sum : sums) sum = VecI::zero();
  for (size_t i = 0; i < n; i += kStep * kStreams) {
    for (int s = 0; s < kStreams; ++s) sums[s] = sums[s] + as_int(VecB::load(data + i + kStep * s));
  }
  return total(sums);
}

#if LOCI_WIDE_DOT
int32_t int8(int64_t rounds) noexcept {
  alignas(4) int8_t q[4] = {1, -1, 2, -2};
  const VecB w = VecB::splat(7);
  VecI sums[kChains];
  for (VecI& sum : sums) sum = VecI::zero();
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : : "r"(q) : "memory");  // q may have changed: nothing is computed before the loop
    for (VecI& sum : sums) sum = dot4(sum, w, q);
  }
  return total(sums);
}
#else
LOCI_HD VecPairs products(VecPairs u, VecPairs q) {
#if defined(__AVX512BW__)
  return {_mm512_maddubs_epi16(u.v, q.v)};
#else
  return {_mm256_maddubs_epi16(u.v, q.v)};
#endif
}

// As the kernels do for 4-bit codes: eight products in 16 bits, then one widening addition.
int32_t int8(int64_t rounds) noexcept {
  VecPairs w{VecB::splat(7).v};
  const VecPairs q{VecB::splat(2).v};
  VecI sums[kPairs];
  for (VecI& sum : sums) sum = VecI::zero();
  for (int64_t round = 0; round < rounds; ++round) {
    VecPairs pairs[kPairs];
    for (int group = 0; group < kGroups; ++group) {
      for (VecPairs& pair : pairs) {
        pin(w);  // may have changed, as above
        pair = group == 0 ? products(w, q) : pair + products(w, q);
      }
    }
    for (int i = 0; i < kPairs; ++i) sums[i] = sums[i] + widen(pairs[i]);
  }
  return total(sums);
}
#endif

float f32(int64_t rounds) noexcept {
  const VecF factor = VecF::splat(0.5f), term = VecF::splat(0.25f);
  VecF sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = VecF::splat(static_cast<float>(c));
  for (int64_t round = 0; round < rounds; ++round) {
    for (VecF& sum : sums) sum = fma(sum, factor, term);
  }
  VecF all = VecF::zero();
  for (const VecF& sum : sums) all = all + sum;
  float lanes[VecF::kLanes];
  all.store(lanes);
  return lanes[0];
}

#if defined(__AVX512BF16__)
constexpr int64_t kBf16MacsPerRound = int64_t{32} * kChains;
float bf16(int64_t rounds) noexcept {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f)), b = a;
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; ++round) {
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, a, b);
  }
  __m512 all = _mm512_setzero_ps();
  for (const __m512& sum : sums) all = _mm512_add_ps(all, sum);
  return _mm512_cvtss_f32(all);
}
#else
constexpr int64_t kBf16MacsPerRound = 0;
constexpr float (*bf16)(int64_t) noexcept = nullptr;
#endif

}  // namespace

extern const RooflineKernels kRoofline;
const RooflineKernels kRoofline = {
    .name = LOCI_STR(LOCI_ISA),
    .read = read,
    .int8_macs_per_round = kInt8MacsPerRound,
    .int8 = int8,
    .f32_macs_per_round = int64_t{VecF::kLanes} * kChains,
    .f32 = f32,
    .bf16_macs_per_round = kBf16MacsPerRound,
    .bf16 = bf16,
};

}  // namespace loci::cpu::LOCI_ISA
