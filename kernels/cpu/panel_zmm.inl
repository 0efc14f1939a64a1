// Passes over a panel with all eight code vectors of a block in registers: AVX-512 and the scalar twin.
// Pasted into isa_kernels.cc; panel_ymm.inl is the counterpart for sixteen registers.

// Sums of products that fit in 16 bits for codes of kBits (activations are within +-127), in groups of 4 elements.
constexpr int groups_per_widening(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

// out[j] = sum over groups kFirst .. kFirst + kCount - 1 of (code - offset) * q, times 2^kCodeShift, for kN tokens.
//   q   [kN][32] codes of the tokens
//   n   [kN]     -128 * sum of the codes in these groups, int32
template <class Q, int kFirst, int kCount, int kN>
LOCI_HD void dot_groups(const VecB w[8], const int8_t* q, const uint8_t* n, VecI out[kN]) {
#if LOCI_WIDE_DOT
  for (int j = 0; j < kN; ++j) out[j] = Q::kOffset != 0 ? VecI::splat(load_i32(n + 4 * j)) : VecI::zero();
  LOCI_UNROLL(8)
  for (int g = kFirst; g < kFirst + kCount; ++g) {
    LOCI_UNROLL(4)
    for (int j = 0; j < kN; ++j) out[j] = dot4(out[j], w[g], q + kBlock * j + 4 * g);
  }
#else
  LOCI_UNROLL(4)
  for (int j = 0; j < kN; ++j) {
    VecI sum = VecI::zero();
    if constexpr (Q::kBits == 8) {
      LOCI_UNROLL(8)
      for (int g = kFirst; g < kFirst + kCount; ++g) {
        sum = sum + widen(mul_pairs_offset128(w[g], q + kBlock * j + 4 * g));
      }
    } else {
      constexpr int kStep = groups_per_widening(Q::kBits) < kCount ? groups_per_widening(Q::kBits) : kCount;
      LOCI_UNROLL(8)
      for (int first = kFirst; first < kFirst + kCount; first += kStep) {
        auto pairs = mul_pairs(w[first], q + kBlock * j + 4 * first);
        LOCI_UNROLL(8)
        for (int g = first + 1; g < first + kStep; ++g) {
          pairs = pairs + mul_pairs(w[g], q + kBlock * j + 4 * g);
          pin(pairs);
        }
        sum = sum + widen(pairs);
      }
      if constexpr (Q::kOffset != 0) sum = sum + sra<7 - log2_of(Q::kOffset)>(VecI::splat(load_i32(n + 4 * j)));
    }
    out[j] = sum;
  }
#endif
}

// kN tokens of one block into their accumulators.
template <class Q, int kN>
LOCI_HD void block_tokens(const VecB w[8], const VecF scale[2], const VecF minimum[2], const uint8_t* block,
                          int tile_tokens, int t, VecF* acc) {
  const int8_t* q = reinterpret_cast<const int8_t*>(block) + kBlock * t;
  const uint8_t* d = block + kBlock * tile_tokens + 4 * t;
  const int field = 4 * tile_tokens;
  const uint8_t* n0 = d + 3 * field;
  const uint8_t* n1 = d + 4 * field;
  if constexpr (!Q::kHalves) {
    VecI i[kN];
    dot_groups<Q, 0, 8, kN>(w, q, d + 2 * field, i);
    LOCI_UNROLL(4)
    for (int j = 0; j < kN; ++j) {
      acc[j] = fma(to_float(i[j]), scale[0] * VecF::splat(load_f32(d + 4 * j)), acc[j]);
      if constexpr (Q::kHasMin) acc[j] = fma(minimum[0], VecF::splat(load_f32(d + field + 4 * j)), acc[j]);
    }
  } else {
    VecI i0[kN], i1[kN];
    dot_groups<Q, 0, 4, kN>(w, q, n0, i0);
    dot_groups<Q, 4, 4, kN>(w, q, n1, i1);
    LOCI_UNROLL(4)
    for (int j = 0; j < kN; ++j) {
      VecF sum = to_float(i0[j]) * scale[0];
      sum = fma(to_float(i1[j]), scale[1], sum);
      acc[j] = fma(sum, VecF::splat(load_f32(d + 4 * j)), acc[j]);
      if constexpr (Q::kHasMin) {
        // n is -128 times the sum of codes; the power of two changes no bit.
        const float scaled = load_f32(d + 4 * j) * -0x1p-7f;
        acc[j] = fma(minimum[0], VecF::splat(scaled * static_cast<float>(load_i32(n0 + 4 * j))), acc[j]);
        acc[j] = fma(minimum[1], VecF::splat(scaled * static_cast<float>(load_i32(n1 + 4 * j))), acc[j]);
      }
    }
  }
}

// kTokens columns t0 .. of a tile, for lanes r0 .. r0 + kLanes - 1 of the panel. Sums start at +0, or go on from what
// out holds (kContinue).
template <class Q, int kTokens, bool kContinue>
void panel_pass(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int t0, int r0,
                int64_t ahead, float* out) noexcept {
  if constexpr (kTokensPerPass == kMaxTileTokens) tile_tokens = kTokens;  // one pass per tile: a constant
  constexpr int kWanted = VecF::kLanes == 16 ? (Q::kHalves ? 2 : 4) : 2;
  constexpr int kStep = kTokens >= kWanted ? kWanted : kTokens;
  VecF acc[kTokens];
  LOCI_UNROLL(16)  // or the accumulators start their life in memory
  for (int t = 0; t < kTokens; ++t) {
    acc[t] = kContinue ? VecF::load(out + (t0 + t) * kPanelRows + r0) : VecF::zero();
  }
  const int block_bytes = kTileBytes * tile_tokens;
  for (int64_t first = 0; first < n_blocks; first += Q::kBlocks, panel += Q::kUnitBytes) {
    const Q unit(panel, r0);
    LOCI_UNROLL(1)
    for (int b = 0; b < Q::kBlocks; ++b, tile += block_bytes) {
      if constexpr (kTokens <= kPrefetchTokens) {
        if (ahead > 0) prefetch_block<Q>(panel, b, ahead);
      }
      VecB w[8];
      codes<kCodeShift<Q>>(unit, b, w);
      VecF scale[2], minimum[2];
      scale[0] = unit.scale(b, 0);
      if constexpr (Q::kHalves) scale[1] = unit.scale(b, 1);
      if constexpr (kCodeShift<Q> != 0) {
        const VecF unshift = VecF::splat(1.0f / (1 << kCodeShift<Q>));
        scale[0] = scale[0] * unshift;
        if constexpr (Q::kHalves) scale[1] = scale[1] * unshift;
      }
      if constexpr (Q::kHasMin) {
        minimum[0] = unit.minimum(b, 0);
        if constexpr (Q::kHalves) minimum[1] = unit.minimum(b, 1);
      }
      LOCI_UNROLL(16)
      for (int t = 0; t + kStep <= kTokens; t += kStep) {
        block_tokens<Q, kStep>(w, scale, minimum, tile, tile_tokens, t0 + t, acc + t);
      }
      constexpr int kRest = kTokens % kStep;
      if constexpr (kRest != 0) {
        block_tokens<Q, kRest>(w, scale, minimum, tile, tile_tokens, t0 + kTokens - kRest, acc + kTokens - kRest);
      }
    }
  }
  LOCI_UNROLL(16)
  for (int t = 0; t < kTokens; ++t) acc[t].store(out + (t0 + t) * kPanelRows + r0);
}

// All columns of a tile whose size is not a constant, in passes of at most kTokensPerPass.
template <class Q, bool kContinue>
void panel_passes(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int64_t ahead,
                  float* out) noexcept {
  const int passes = (tile_tokens + kTokensPerPass - 1) / kTokensPerPass;
  for (int pass = 0; pass < passes; ++pass) {
    const int t0 = tile_tokens * pass / passes;
    const int t1 = tile_tokens * (pass + 1) / passes;
    for (int r0 = 0; r0 < kPanelRows; r0 += VecF::kLanes) {
      switch (t1 - t0) {
        case 1:
          panel_pass<Q, 1, kContinue>(panel, n_blocks, tile, tile_tokens, t0, r0, t0 == 0 && r0 == 0 ? ahead : 0, out);
          break;
        case 2:
          panel_pass<Q, 2, kContinue>(panel, n_blocks, tile, tile_tokens, t0, r0, t0 == 0 && r0 == 0 ? ahead : 0, out);
          break;
        case 3:
          panel_pass<Q, 3, kContinue>(panel, n_blocks, tile, tile_tokens, t0, r0, t0 == 0 && r0 == 0 ? ahead : 0, out);
          break;
        case 4:
          panel_pass<Q, 4, kContinue>(panel, n_blocks, tile, tile_tokens, t0, r0, t0 == 0 && r0 == 0 ? ahead : 0, out);
          break;
        default:
          break;
      }
    }
  }
}

template <class Q>
void panel_int8(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int64_t ahead,
                float* out) noexcept {
  if constexpr (kTokensPerPass == kMaxTileTokens) {
#define LOCI_CASE(T) \
  case T:            \
    return panel_pass<Q, T, false>(panel, n_blocks, tile, tile_tokens, 0, 0, ahead, out);
    switch (tile_tokens) {
      // clang-format off
      LOCI_CASE(1) LOCI_CASE(2) LOCI_CASE(3) LOCI_CASE(4) LOCI_CASE(5) LOCI_CASE(6) LOCI_CASE(7) LOCI_CASE(8)
      LOCI_CASE(10) LOCI_CASE(12) LOCI_CASE(14) LOCI_CASE(16)
      default: return;
      // clang-format on
    }
#undef LOCI_CASE
  } else {
    panel_passes<Q, false>(panel, n_blocks, tile, tile_tokens, ahead, out);
  }
}

// A panel is decoded apart when that serves two full tiles.
constexpr int kSlabMinTokens = 2 * kMaxTileTokens, kSlabMinTileTokens = kMaxTileTokens;

template <class S>
void slab_tile(const uint8_t* slab, int64_t n_blocks, const uint8_t* tile, int tile_tokens, float* acc) noexcept {
  if constexpr (kTokensPerPass == kMaxTileTokens) {
    panel_pass<S, kMaxTileTokens, true>(slab, n_blocks, tile, tile_tokens, 0, 0, 0, acc);
  } else {
    panel_passes<S, true>(slab, n_blocks, tile, tile_tokens, 0, acc);
  }
}
