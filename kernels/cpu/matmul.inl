// Panel kernels: 16 weight rows times up to 16 tokens. Pasted into isa_kernels.cc.
// Accumulation orders are the contract of docs/numerics.md: a result never depends on the tile or the ISA.

// Not under sanitizers: with every access checked, unrolled kernels take minutes to compile.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCI_UNROLL(n)
#else
#define LOCI_PRAGMA(x) _Pragma(#x)
#define LOCI_UNROLL(n) LOCI_PRAGMA(GCC unroll n)
#endif

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }

// Fields of a tile; one at a time and from memory, so that each becomes a broadcasting load.
LOCI_HD int32_t load_i32(const uint8_t* p) {
  int32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}
LOCI_HD float load_f32(const uint8_t* p) {
  float value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// Up to so many tokens a product waits for memory.
constexpr int kPrefetchTokens = 8;

// Fetches to L2 what lies `ahead` bytes behind block b of a unit.
template <class Q>
LOCI_HD void prefetch_block(const uint8_t* unit, int b, int64_t ahead) {
  constexpr int kBytes = Q::kUnitBytes / Q::kBlocks;
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(unit + b * kBytes + ahead + i, 0, 2);
}

// How far codes are moved up so that their offset becomes 128 (wide dots only).
template <class Q>
constexpr int kCodeShift = LOCI_WIDE_DOT&& Q::kOffset != 0 ? 7 - log2_of(Q::kOffset) : 0;

// Slabs: blocks decoded once for many tiles. Per block: codes w[8][64], then f32 [16] each: scale (two with halves),
// minimum (likewise). Wide dots see every code at the top of its byte, so that types differ in shape only.
template <int kCodeBits, int kCodeOffset, bool kMin, bool kHalf>
struct Slab {
  static constexpr int kScales = kHalf ? 2 : 1;
  static constexpr int kUnitBytes = 512 + 64 * kScales * (kMin ? 2 : 1), kBlocks = 1;
  static constexpr int kBits = kCodeBits, kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin, kHalves = kHalf;
  const uint8_t* unit;
  int r0;
  LOCI_HD Slab(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return VecB::load(unit + 64 * kG + 4 * r0);
  }
  LOCI_HD const float* floats(int i) const { return reinterpret_cast<const float*>(unit + 512 + 64 * i) + r0; }
  LOCI_HD VecF scale(int, int half) const { return VecF::load(floats(half)); }
  LOCI_HD VecF minimum(int, int half) const { return VecF::load(floats(kScales + half)); }
};
template <int kBits, int kOffset, bool kMin, bool kHalf>
constexpr int kCodeShift<Slab<kBits, kOffset, kMin, kHalf>> = 0;

template <class Q>
using SlabOf =
    Slab<LOCI_WIDE_DOT ? 8 : Q::kBits, LOCI_WIDE_DOT && Q::kOffset != 0 ? 128 : Q::kOffset, Q::kHasMin, Q::kHalves>;

template <class Q>
void slab_unpack(const uint8_t* panel, int64_t block_begin, int64_t n_blocks, uint8_t* slab) noexcept {
  using S = SlabOf<Q>;
  panel += block_begin / Q::kBlocks * Q::kUnitBytes;
  for (int64_t first = 0; first < n_blocks; first += Q::kBlocks, panel += Q::kUnitBytes) {
    for (int r0 = 0; r0 < kPanelRows; r0 += VecF::kLanes) {
      const Q unit(panel, r0);
      uint8_t* block = slab + first * S::kUnitBytes;
      for (int b = 0; b < Q::kBlocks; ++b, block += S::kUnitBytes) {
        VecB w[8];
        codes<kCodeShift<Q>>(unit, b, w);
        for (int g = 0; g < 8; ++g) as_int(w[g]).store(reinterpret_cast<int32_t*>(block + 64 * g + 4 * r0));
        float* floats = reinterpret_cast<float*>(block + 512) + r0;
        for (int half = 0; half < S::kScales; ++half) {
          VecF scale = unit.scale(b, half);
          if constexpr (kCodeShift<Q> != 0) scale = scale * VecF::splat(1.0f / (1 << kCodeShift<Q>));
          scale.store(floats + 16 * half);
          if constexpr (Q::kHasMin) unit.minimum(b, half).store(floats + 16 * (S::kScales + half));
        }
      }
    }
  }
}

// Elements as f32, equal bit by bit to the file type's dequantization: scale * (code - offset), minus the minimum.
template <class Q>
void panel_unpack(const uint8_t* panel, int64_t k_begin, int64_t n, float* out) noexcept {
  panel += k_begin / (kBlock * Q::kBlocks) * Q::kUnitBytes;
  for (int64_t done = 0; done < n; panel += Q::kUnitBytes) {
    for (int r0 = 0; r0 < kPanelRows; r0 += VecF::kLanes) {
      const Q unit(panel, r0);
      for (int b = 0; b < Q::kBlocks && done + kBlock * b < n; ++b) {
        float* block = out + (done + kBlock * b) * kPanelRows + r0;
        VecB w[8];
        codes<0>(unit, b, w);
        for (int half = 0; half < 2; ++half) {
          const VecF scale = unit.scale(b, Q::kHalves ? half : 0);
          VecF minimum = VecF::zero();
          if constexpr (Q::kHasMin) minimum = unit.minimum(b, Q::kHalves ? half : 0);
          for (int g = 4 * half; g < 4 * half + 4; ++g) {
            const VecI word = as_int(w[g]);
            const VecI byte = VecI::splat(255), offset = VecI::splat(Q::kOffset);
            const VecI code[4] = {word & byte, shr<8>(word) & byte, shr<16>(word) & byte, shr<24>(word)};
            LOCI_UNROLL(4)
            for (int i = 0; i < 4; ++i) {
              VecF value = scale * to_float(code[i] - offset);
              if constexpr (Q::kHasMin) value = value + minimum;
              value.store(block + (4 * g + i) * kPanelRows);
            }
          }
        }
      }
    }
    done += kBlock * Q::kBlocks;
  }
}

void panel_unpack_f32(const uint8_t* panel, int64_t k_begin, int64_t n, float* out) noexcept {
  __builtin_memcpy(out, panel + k_begin * kPanelRows * 4, static_cast<size_t>(n) * kPanelRows * 4);
}
void panel_unpack_f16(const uint8_t* panel, int64_t k_begin, int64_t n, float* out) noexcept {
  const uint16_t* in = halves_at(panel) + k_begin * kPanelRows;
  for (int64_t i = 0; i < n * kPanelRows; i += VecF::kLanes) VecF::load_f16(in + i).store(out + i);
}
void panel_unpack_bf16(const uint8_t* panel, int64_t k_begin, int64_t n, float* out) noexcept {
  const uint16_t* in = halves_at(panel) + k_begin * kPanelRows;
  for (int64_t i = 0; i < n * kPanelRows; i += VecF::kLanes) VecF::load_bf16(in + i).store(out + i);
}

// kTokens columns; kBlocks blocks of 32 are summed side by side to hide the latency of fma, then added in order.
template <int kTokens, int kBlocks>
LOCI_HD void f32_blocks(const float* weights, int64_t n_in_block, const float* tile, int tile_tokens, float* acc) {
  constexpr int kParts = kPanelRows / VecF::kLanes > 2 ? 1 : kPanelRows / VecF::kLanes;
  for (int r0 = 0; r0 < kPanelRows; r0 += kParts * VecF::kLanes) {
    VecF sum[kBlocks][kTokens][kParts];
    for (int b = 0; b < kBlocks; ++b) {
      for (int t = 0; t < kTokens; ++t) {
        for (int p = 0; p < kParts; ++p) sum[b][t][p] = VecF::zero();
      }
    }
    for (int64_t k = 0; k < n_in_block; ++k) {
      LOCI_UNROLL(8)
      for (int b = 0; b < kBlocks; ++b) {
        VecF w[kParts];
        for (int p = 0; p < kParts; ++p) {
          w[p] = VecF::load(weights + (k + b * kBlock) * kPanelRows + r0 + p * VecF::kLanes);
        }
        const float* x = tile + (k + b * kBlock) * tile_tokens;
        LOCI_UNROLL(16)
        for (int t = 0; t < kTokens; ++t) {
          for (int p = 0; p < kParts; ++p) sum[b][t][p] = fma(w[p], VecF::splat(x[t]), sum[b][t][p]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int p = 0; p < kParts; ++p) {
        float* out = acc + t * kPanelRows + r0 + p * VecF::kLanes;
        VecF total = VecF::load(out);
        for (int b = 0; b < kBlocks; ++b) total = total + sum[b][t][p];
        total.store(out);
      }
    }
  }
}

template <int kTokens>
void f32_pass(const float* weights, int64_t n, const float* tile, int tile_tokens, int t0, float* acc) noexcept {
  if constexpr (kTokensPerPass == kMaxTileTokens) tile_tokens = kTokens;
  constexpr int kChains = kTokens * (VecF::kLanes == 8 ? 2 : 1);
  constexpr int kBlocks = kChains == 1 ? 8 : kChains <= 3 ? 4 : kChains <= 4 ? 2 : 1;
  tile += t0;
  acc += t0 * kPanelRows;
  int64_t k = 0;
  for (; k + kBlocks * kBlock <= n; k += kBlocks * kBlock) {
    f32_blocks<kTokens, kBlocks>(weights + k * kPanelRows, kBlock, tile + k * tile_tokens, tile_tokens, acc);
  }
  for (; k < n; k += kBlock) {
    const int64_t rest = n - k < kBlock ? n - k : kBlock;
    f32_blocks<kTokens, 1>(weights + k * kPanelRows, rest, tile + k * tile_tokens, tile_tokens, acc);
  }
}

void panel_f32(const float* weights, int64_t n, const float* tile, int tile_tokens, float* acc) noexcept {
  const int passes = (tile_tokens + kTokensPerPass - 1) / kTokensPerPass;
  for (int pass = 0; pass < passes; ++pass) {
    const int t0 = tile_tokens * pass / passes;
    const int t1 = tile_tokens * (pass + 1) / passes;
#define LOCI_CASE(T)                                                                        \
  case T:                                                                                   \
    if constexpr (T <= kTokensPerPass) f32_pass<T>(weights, n, tile, tile_tokens, t0, acc); \
    break;
    switch (t1 - t0) {
      // clang-format off
      LOCI_CASE(1) LOCI_CASE(2) LOCI_CASE(3) LOCI_CASE(4) LOCI_CASE(5) LOCI_CASE(6) LOCI_CASE(7) LOCI_CASE(8)
      LOCI_CASE(10) LOCI_CASE(12) LOCI_CASE(14) LOCI_CASE(16)
      default: break;
      // clang-format on
    }
#undef LOCI_CASE
  }
}

void store_tile(const float* acc, int n_tokens, int n_rows, const float* bias, bool accumulate, float* out,
                int64_t out_stride) noexcept {
  for (int t = 0; t < n_tokens; ++t) {
    for (int r = 0; r < n_rows; r += VecF::kLanes) {
      VecF value = VecF::load(acc + t * kPanelRows + r);
      if (bias != nullptr) value = value + VecF::load_first(bias + r, n_rows - r);
      float* place = out + t * out_stride + r;
      if (accumulate) value = value + VecF::load_first(place, n_rows - r);
      value.store_first(place, n_rows - r);
    }
  }
}

void store_gated_tile(const float* gate, const float* up, GateFunction function, int n_tokens, int n_rows, float* out,
                      int64_t out_stride) noexcept {
  for (int t = 0; t < n_tokens; ++t) {
    for (int r = 0; r < n_rows; r += VecF::kLanes) {
      const VecF g = VecF::load(gate + t * kPanelRows + r);
      const VecF activated = function == GateFunction::kSilu ? vec_silu(g) : vec_gelu_tanh(g);
      (activated * VecF::load(up + t * kPanelRows + r)).store_first(out + t * out_stride + r, n_rows - r);
    }
  }
}
