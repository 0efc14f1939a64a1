// Slab kernels on AMX tiles. CMake compiles this file for AMX, and once more with emulated tiles for tests.
//
// A = 16 tokens x 32 codes of the activation tile, as it lies; B = the 8 x 64 signed codes of a slab's block (code
// minus offset, so that no sum is corrected afterwards); C = 16 tokens x 16 rows of int32. Scales change with every
// block, so C is stored and added to the accumulators block by block, in the order of docs/numerics.md.
#include LOCI_SIMD_HEADER
#include "kernels/cpu/amx_kernels.h"
#include "kernels/cpu/amx_tile.h"

namespace loci::cpu::LOCI_ISA {
namespace {

#include "kernels/cpu/panel_types.inl"

// Two of each, so that one block's product runs beside the other's sums.
enum Tile { kC0, kC1, kA0, kA1, kB0, kB1 };

// Fewer tokens than 16 still load 16 rows of A, fields behind the codes included; their sums go nowhere.
constexpr int kMinTokens = 8;
static_assert(kMinTokens * kTileBytes >= kMaxTileTokens * kBlock, "A reads past the block");

constexpr TileConfig slab_config() {
  TileConfig config;
  for (const int c : {kC0, kC1}) config.set(c, kMaxTileTokens, 4 * kPanelRows);
  for (const int a : {kA0, kA1}) config.set(a, kMaxTileTokens, kBlock);
  for (const int b : {kB0, kB1}) config.set(b, kBlock / 4, 4 * kPanelRows);
  return config;
}
constexpr TileConfig kSlabConfig = slab_config();

void begin_slabs() noexcept { tile_configure(kSlabConfig); }
void end_slabs() noexcept { tile_release(); }

// Per block: codes i8 [8][64], then f32 [16] scales, and [16] minimums where the type has them.
template <class Q>
constexpr int kSlabBytes = 512 + 64 * (Q::kHasMin ? 2 : 1);

template <class Q>
void unpack(const uint8_t* panel, int64_t block_begin, int64_t n_blocks, uint8_t* slab) noexcept {
  panel += block_begin / Q::kBlocks * Q::kUnitBytes;
  for (int64_t first = 0; first < n_blocks; first += Q::kBlocks, panel += Q::kUnitBytes) {
    for (int r0 = 0; r0 < kPanelRows; r0 += VecF::kLanes) {
      const Q unit(panel, r0);
      uint8_t* block = slab + first * kSlabBytes<Q>;
      for (int b = 0; b < Q::kBlocks; ++b, block += kSlabBytes<Q>) {
        VecB w[8];
        codes<0>(unit, b, w);
        for (int g = 0; g < 8; ++g) {
          if constexpr (Q::kOffset != 0) w[g] = w[g] - VecB::splat(Q::kOffset);
          as_int(w[g]).store(reinterpret_cast<int32_t*>(block + 64 * g + 4 * r0));
        }
        float* floats = reinterpret_cast<float*>(block + 512) + r0;
        unit.scale(b, 0).store(floats);
        if constexpr (Q::kHasMin) unit.minimum(b, 0).store(floats + kPanelRows);
      }
    }
  }
}

LOCI_HD VecF splat_at(const uint8_t* p) {
  float value;
  __builtin_memcpy(&value, p, sizeof(value));
  return VecF::splat(value);
}

template <int kC, int kA, int kB>
LOCI_HD void block_dot(const uint8_t* slab, const uint8_t* tile) {
  tile_zero<kC>();
  tile_load<kA>(tile, kBlock);
  tile_load<kB>(slab, 4 * kPanelRows);
  tile_dot<kC, kA, kB>();
}

// sums [16][16] of one block into the accumulators of lanes r0 ...
template <class Q, int kTokens>
LOCI_HD void add_block(const int32_t* sums, const uint8_t* slab, const uint8_t* tile, int r0, VecF* acc) {
  const float* floats = reinterpret_cast<const float*>(slab + 512) + r0;
  const VecF scale = VecF::load(floats);
  const uint8_t* d = tile + kBlock * kTokens;
  const uint8_t* s = d + 4 * kTokens;
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const VecF sum = to_float(VecI::load(sums + t * kPanelRows + r0));
    acc[t] = fma(sum, scale * splat_at(d + 4 * t), acc[t]);
    if constexpr (Q::kHasMin) acc[t] = fma(VecF::load(floats + kPanelRows), splat_at(s + 4 * t), acc[t]);
  }
}

template <class Q, int kTokens>
void multiply(const uint8_t* slab, int64_t n_blocks, const uint8_t* tile, float* out) noexcept {
  constexpr int kBlockBytes = kTileBytes * kTokens;
  for (int r0 = 0; r0 < kPanelRows; r0 += VecF::kLanes) {
    VecF acc[kTokens];
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) acc[t] = VecF::load(out + t * kPanelRows + r0);
    alignas(64) int32_t sums[2][kMaxTileTokens * kPanelRows];
    const uint8_t* weights = slab;
    const uint8_t* x = tile;
    int64_t b = 0;
    for (; b + 2 <= n_blocks; b += 2, weights += 2 * kSlabBytes<Q>, x += 2 * kBlockBytes) {
      block_dot<kC0, kA0, kB0>(weights, x);
      block_dot<kC1, kA1, kB1>(weights + kSlabBytes<Q>, x + kBlockBytes);
      tile_store<kC0>(sums[0], 4 * kPanelRows);
      tile_store<kC1>(sums[1], 4 * kPanelRows);
      add_block<Q, kTokens>(sums[0], weights, x, r0, acc);
      add_block<Q, kTokens>(sums[1], weights + kSlabBytes<Q>, x + kBlockBytes, r0, acc);
    }
    if (b < n_blocks) {
      block_dot<kC0, kA0, kB0>(weights, x);
      tile_store<kC0>(sums[0], 4 * kPanelRows);
      add_block<Q, kTokens>(sums[0], weights, x, r0, acc);
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) acc[t].store(out + t * kPanelRows + r0);
  }
}

template <class Q>
void slab_tile(const uint8_t* slab, int64_t n_blocks, const uint8_t* tile, int tile_tokens, float* acc) noexcept {
  switch (tile_tokens) {
    case 8:
      return multiply<Q, 8>(slab, n_blocks, tile, acc);
    case 10:
      return multiply<Q, 10>(slab, n_blocks, tile, acc);
    case 12:
      return multiply<Q, 12>(slab, n_blocks, tile, acc);
    case 14:
      return multiply<Q, 14>(slab, n_blocks, tile, acc);
    case 16:
      return multiply<Q, 16>(slab, n_blocks, tile, acc);
    default:
      return;
  }
}

template <class Q>
void replace(MatmulKernels& kernels, PanelType type) noexcept {
  static_assert(!Q::kHalves && kSlabBytes<Q> <= kSlabBlockBytes);
  kernels.slab_min_tokens[type] = kMinTokens;
  kernels.slab_min_tile_tokens[type] = kMinTokens;
  kernels.slab_unpack[type] = unpack<Q>;
  kernels.slab_int8[type] = slab_tile<Q>;
}

void replace_slabs(MatmulKernels& kernels) noexcept {
  kernels.begin_slabs = begin_slabs;
  kernels.end_slabs = end_slabs;
  replace<TypeQ4_0>(kernels, kPanelQ4_0);
  replace<TypeQ4_1>(kernels, kPanelQ4_1);
  replace<TypeQ5_0>(kernels, kPanelQ5_0);
  replace<TypeQ5_1>(kernels, kPanelQ5_1);
  replace<TypeQ8_0>(kernels, kPanelQ8_0);
  replace<TypeIQ4_NL>(kernels, kPanelIQ4_NL);
  replace<TypeMXFP4>(kernels, kPanelMXFP4);
  replace<TypeQ4_K>(kernels, kPanelQ4_K);
  replace<TypeQ5_K>(kernels, kPanelQ5_K);
}

// Whole tiles, K = 64: what the multiplier can do at most. Blocks of 32 use half of it.
constexpr int64_t kMacsPerRound = int64_t{4} * 16 * 16 * 64;
int32_t int8(int64_t rounds) noexcept {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, 16, 64);
  tile_configure(config);
  for (int64_t round = 0; round < rounds; ++round) {
    tile_dot<0, 4, 6>();
    tile_dot<1, 4, 7>();
    tile_dot<2, 5, 6>();
    tile_dot<3, 5, 7>();
  }
  int32_t sums[256];
  tile_store<0>(sums, 64);
  tile_release();
  return sums[0];
}

}  // namespace

const AmxKernels kAmx = {.replace_slabs = replace_slabs, .int8_macs_per_round = kMacsPerRound, .int8 = int8};

}  // namespace loci::cpu::LOCI_ISA
