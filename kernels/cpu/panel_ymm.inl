// Passes over a panel with sixteen registers of eight lanes: AVX2 and AVX-VNNI. Pasted into isa_kernels.cc;
// panel_zmm.inl is the counterpart for thirty-two.
//
// Groups of four elements take turns: a decoded vector of codes serves up to four tokens, a broadcast activation the
// vectors of both halves of the panel, and what stays in registers is the integer sums. The float accumulators of
// more than two tokens live in memory, that is in L1.

// Vectors of lanes that advance together. Two sums per block leave registers for one.
template <class Q>
constexpr int kVectors = Q::kHalves ? 1 : kPanelRows / VecF::kLanes;

// The part of a block that an integer sum covers; also the place of its fields in a tile (panel_format.h).
enum Part : int { kWhole, kFirstHalf, kSecondHalf };
constexpr int kFieldS = 1, kFieldN = 2, kFieldP = 5;

// Integer sums of (code - offset) * q for one token, times 2^kCodeShift.
//   start   from the token's fields of a part, `field` bytes apart
//   add     one group: prepared codes, activations in every lane
#if LOCI_WIDE_DOT

template <class Q>
struct IntegerSum {
  using Codes = VecB;
  VecI v;
  template <Part kPart>
  LOCI_HD static IntegerSum start(const uint8_t* d, int field) {
    if constexpr (Q::kOffset == 0) return {VecI::zero()};
    return {VecI::splat(load_i32(d + (kFieldN + kPart) * field))};
  }
  LOCI_HD static VecB prepare(VecB u) { return u; }
  LOCI_HD void add(VecB u, VecB q) { v = dot4(v, u, q); }
  template <Part kPart>
  LOCI_HD VecI total(const uint8_t*, int) const {
    return v;
  }
};

#else

// Up to six bits: sums of pairs in 16 bits. They may wrap on the way; the sum around a center does not:
// 16 * 127 * 16 elements, or 32 * 127 * 8, fit.
template <class Q, bool kEightBits = Q::kBits == 8>
struct IntegerSum {
  static constexpr int kCenter = Q::kOffset != 0 ? Q::kOffset : Q::kBits == 5 ? 16 : 0;
  static_assert((kCenter == 0 ? (1 << Q::kBits) - 1 : kCenter) * 127 * (Q::kHalves ? 8 : 16) < 32768);
  using Codes = VecB;
  VecPairs v;
  template <Part kPart>
  LOCI_HD static IntegerSum start(const uint8_t* d, int field) {
    if constexpr (kCenter == 0) return {VecPairs::zero()};
    return {shl<log2_of(kCenter)>(VecPairs::splat(d + (kFieldP + kPart) * field))};
  }
  LOCI_HD static VecB prepare(VecB u) { return u; }
  LOCI_HD void add(VecB u, VecB q) {
    v = v + mul_pairs(u, q);
    pin(v);
  }
  template <Part kPart>
  LOCI_HD VecI total(const uint8_t* d, int field) const {
    if constexpr (kCenter == Q::kOffset) return widen(v);
    return widen(v) - sra<7 - log2_of(kCenter)>(VecI::splat(load_i32(d + (kFieldN + kPart) * field)));
  }
};

// Eight bits, offset 128: pairs of |code - 128| times the activation with the code's sign, each widened at once.
template <class Q>
struct IntegerSum<Q, true> {
  static_assert(Q::kOffset == 128);
  struct Codes {
    VecB value, magnitude;
  };
  VecI v;
  template <Part>
  LOCI_HD static IntegerSum start(const uint8_t*, int) {
    return {VecI::zero()};
  }
  LOCI_HD static Codes prepare(VecB u) {
    const VecB value = u ^ VecB::splat(0x80);
    return {value, abs(value)};
  }
  LOCI_HD void add(const Codes& codes, VecB q) {
    v = v + widen(mul_pairs(codes.magnitude, with_sign_of(q, codes.value)));
    pin(v);
  }
  template <Part>
  LOCI_HD VecI total(const uint8_t*, int) const {
    return v;
  }
};

#endif

// One or two vectors of lanes of a unit.
template <class Q>
struct Lanes {
  Q low, high;
  LOCI_HD Lanes(const uint8_t* unit, int r0) : low(unit, r0), high(unit, kVectors<Q> == 2 ? r0 + VecF::kLanes : r0) {}
  LOCI_HD const Q& operator[](int v) const { return v == 0 ? low : high; }
};

// Where a tile's columns lie in a block.
struct Columns {
  const int8_t* q;   // codes of the first column, [32] each
  const uint8_t* d;  // its fields: d, and the others `field` bytes apart
  int field;
  LOCI_HD const uint8_t* at(int t) const { return d + 4 * t; }
};

// Groups kG .. kEnd - 1 of block b.
template <int kG, int kEnd, int kTokens, class Q>
LOCI_HD void add_groups(const Lanes<Q>& lanes, int b, const int8_t* q, IntegerSum<Q> (*sum)[kTokens]) {
  if constexpr (kG < kEnd) {
    typename IntegerSum<Q>::Codes codes[kVectors<Q>];
    for (int v = 0; v < kVectors<Q>; ++v) {
      codes[v] = IntegerSum<Q>::prepare(lanes[v].template code<kCodeShift<Q>, kG>(b));
    }
    LOCI_UNROLL(4)
    for (int t = 0; t < kTokens; ++t) {
      const VecB activations = VecB::broadcast4(q + kBlock * t + 4 * kG);
      for (int v = 0; v < kVectors<Q>; ++v) sum[v][t].add(codes[v], activations);
    }
    add_groups<kG + 1, kEnd, kTokens>(lanes, b, q, sum);
  }
}

// Integer sums of a part of block b, as floats.
template <Part kPart, int kTokens, class Q>
LOCI_HD void part_sums(const Lanes<Q>& lanes, int b, const Columns& columns, VecF (*out)[kTokens]) {
  IntegerSum<Q> sum[kVectors<Q>][kTokens];
  LOCI_UNROLL(4)
  for (int t = 0; t < kTokens; ++t) {
    const auto start = IntegerSum<Q>::template start<kPart>(columns.at(t), columns.field);
    for (int v = 0; v < kVectors<Q>; ++v) sum[v][t] = start;
  }
  add_groups<kPart == kSecondHalf ? 4 : 0, kPart == kFirstHalf ? 4 : 8, kTokens>(lanes, b, columns.q, sum);
  LOCI_UNROLL(4)
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors<Q>; ++v) {
      out[v][t] = to_float(sum[v][t].template total<kPart>(columns.at(t), columns.field));
    }
  }
}

template <class Q>
LOCI_HD VecF unshifted_scale(const Q& unit, int b, int half) {
  const VecF scale = unit.scale(b, half);
  if constexpr (kCodeShift<Q> == 0) return scale;
  return scale * VecF::splat(1.0f / (1 << kCodeShift<Q>));
}

// Block b into the accumulators; load(v, t) and store(v, t, value) reach them.
template <int kTokens, class Q, class Load, class Store>
LOCI_HD void add_block(const Lanes<Q>& lanes, int b, const Columns& columns, Load&& load, Store&& store) {
  constexpr int kV = kVectors<Q>;
  VecF sum[kV][kTokens];
  if constexpr (!Q::kHalves) {
    part_sums<kWhole, kTokens>(lanes, b, columns, sum);
    VecF scale[kV], minimum[kV];
    for (int v = 0; v < kV; ++v) {
      scale[v] = unshifted_scale(lanes[v], b, 0);
      if constexpr (Q::kHasMin) minimum[v] = lanes[v].minimum(b, 0);
    }
    LOCI_UNROLL(4)
    for (int t = 0; t < kTokens; ++t) {
      const VecF d = VecF::splat(load_f32(columns.at(t)));
      for (int v = 0; v < kV; ++v) {
        VecF acc = fma(sum[v][t], scale[v] * d, load(v, t));
        if constexpr (Q::kHasMin) {
          acc = fma(minimum[v], VecF::splat(load_f32(columns.at(t) + kFieldS * columns.field)), acc);
        }
        store(v, t, acc);
      }
    }
  } else {
    VecF second[kV][kTokens];
    part_sums<kFirstHalf, kTokens>(lanes, b, columns, sum);
    for (int v = 0; v < kV; ++v) {
      const VecF scale = unshifted_scale(lanes[v], b, 0);
      for (int t = 0; t < kTokens; ++t) sum[v][t] = sum[v][t] * scale;
    }
    part_sums<kSecondHalf, kTokens>(lanes, b, columns, second);
    for (int v = 0; v < kV; ++v) {
      const VecF scale = unshifted_scale(lanes[v], b, 1);
      LOCI_UNROLL(4)
      for (int t = 0; t < kTokens; ++t) {
        const float d = load_f32(columns.at(t));
        VecF acc = fma(fma(second[v][t], scale, sum[v][t]), VecF::splat(d), load(v, t));
        if constexpr (Q::kHasMin) {
          // n is -128 times the sum of codes; the power of two changes no bit.
          const uint8_t* n = columns.at(t) + (kFieldN + kFirstHalf) * columns.field;
          const float scaled = d * -0x1p-7f;
          acc = fma(lanes[v].minimum(b, 0), VecF::splat(scaled * static_cast<float>(load_i32(n))), acc);
          acc = fma(lanes[v].minimum(b, 1), VecF::splat(scaled * static_cast<float>(load_i32(n + columns.field))), acc);
        }
        store(v, t, acc);
      }
    }
  }
}

// Adds columns t0 .. t0 + kTokens - 1 of a tile to out[t * 16 + r].
template <class Q, int kTokens>
void panel_pass(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int t0, int64_t ahead,
                float* out) noexcept {
  constexpr int kV = kVectors<Q>;
  for (int r0 = 0; r0 < kPanelRows; r0 += kV * VecF::kLanes) {
    Columns columns = {reinterpret_cast<const int8_t*>(tile) + kBlock * t0, tile + kBlock * tile_tokens + 4 * t0,
                       4 * tile_tokens};
    const uint8_t* at = panel;
    float* const first_out = out + t0 * kPanelRows + r0;
    VecF acc[kV][kTokens];  // used for few tokens
    const auto place = [&](int v, int t) { return first_out + t * kPanelRows + v * VecF::kLanes; };
    if constexpr (kTokens <= 2) {
      for (int v = 0; v < kV; ++v) {
        for (int t = 0; t < kTokens; ++t) acc[v][t] = VecF::load(place(v, t));
      }
    }
    for (int64_t first = 0; first < n_blocks; first += Q::kBlocks, at += Q::kUnitBytes) {
      const Lanes<Q> lanes(at, r0);
      LOCI_UNROLL(1)
      for (int b = 0; b < Q::kBlocks; ++b) {
        if (ahead > 0 && r0 == 0) prefetch_block<Q>(at, b, ahead);
        if constexpr (kTokens <= 2) {
          add_block<kTokens>(
              lanes, b, columns, [&](int v, int t) { return acc[v][t]; },
              [&](int v, int t, VecF value) { acc[v][t] = value; });
        } else {
          add_block<kTokens>(
              lanes, b, columns, [&](int v, int t) { return VecF::load(place(v, t)); },
              [&](int v, int t, VecF value) { value.store(place(v, t)); });
        }
        columns.q += kTileBytes * tile_tokens;
        columns.d += kTileBytes * tile_tokens;
      }
    }
    if constexpr (kTokens <= 2) {
      for (int v = 0; v < kV; ++v) {
        for (int t = 0; t < kTokens; ++t) acc[v][t].store(place(v, t));
      }
    }
  }
}

// All columns of a tile in passes of about equal width, added to out.
template <class Q>
void panel_passes(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int64_t ahead,
                  float* out) noexcept {
  const int passes = (tile_tokens + kTokensPerPass - 1) / kTokensPerPass;
  for (int pass = 0; pass < passes; ++pass) {
    const int t0 = tile_tokens * pass / passes;
    const int64_t fetched = pass == 0 && tile_tokens <= kPrefetchTokens ? ahead : 0;
    switch (tile_tokens * (pass + 1) / passes - t0) {
      case 1:
        panel_pass<Q, 1>(panel, n_blocks, tile, tile_tokens, t0, fetched, out);
        break;
      case 2:
        panel_pass<Q, 2>(panel, n_blocks, tile, tile_tokens, t0, fetched, out);
        break;
      case 3:
        panel_pass<Q, 3>(panel, n_blocks, tile, tile_tokens, t0, fetched, out);
        break;
      default:
        panel_pass<Q, 4>(panel, n_blocks, tile, tile_tokens, t0, fetched, out);
        break;
    }
  }
}

template <class Q>
void panel_int8(const uint8_t* panel, int64_t n_blocks, const uint8_t* tile, int tile_tokens, int64_t ahead,
                float* out) noexcept {
  __builtin_memset(out, 0, static_cast<size_t>(tile_tokens) * kPanelRows * sizeof(float));
  panel_passes<Q>(panel, n_blocks, tile, tile_tokens, ahead, out);
}

// From three passes over a panel on it is decoded once, apart.
constexpr int kSlabMinTokens = 2 * kTokensPerPass + 1, kSlabMinTileTokens = kSlabMinTokens;

template <class S>
void slab_tile(const uint8_t* slab, int64_t n_blocks, const uint8_t* tile, int tile_tokens, float* acc) noexcept {
  const int passes = (tile_tokens + kTokensPerPass - 1) / kTokensPerPass;
  for (int pass = 0; pass < passes; ++pass) {
    const int t0 = tile_tokens * pass / passes;
    if (tile_tokens * (pass + 1) / passes - t0 == 3) {
      panel_pass<S, 3>(slab, n_blocks, tile, tile_tokens, t0, 0, acc);
    } else {
      panel_pass<S, 4>(slab, n_blocks, tile, tile_tokens, t0, 0, acc);
    }
  }
}
