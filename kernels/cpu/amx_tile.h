// The tile registers of AMX: eight matrices of up to 16 rows x 64 bytes, and the dot product of signed bytes.
// With LOCI_AMX_EMULATED the same operations in plain C++, for machines without them: an instance of its own, for
// tests.
#pragma once
#include <stdint.h>

#include "kernels/hd.h"

namespace loci::cpu::LOCI_ISA {
namespace {

// Shapes of the registers, as LDTILECFG reads them.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr void set(int tile, int n_rows, int n_bytes) {
    rows[tile] = static_cast<uint8_t>(n_rows);
    row_bytes[tile] = static_cast<uint16_t>(n_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

#if defined(LOCI_AMX_EMULATED)

struct TileState {
  TileConfig config;
  uint8_t bytes[8][16][64];
};
thread_local TileState tile_state;

LOCI_HD void tile_configure(const TileConfig& config) { tile_state = {config, {}}; }
LOCI_HD void tile_release() { tile_state = {}; }

template <int kTile>
LOCI_HD void tile_zero() {
  __builtin_memset(tile_state.bytes[kTile], 0, sizeof(tile_state.bytes[kTile]));
}
template <int kTile>
LOCI_HD void tile_load(const void* rows, int64_t stride) {
  tile_zero<kTile>();
  for (int r = 0; r < tile_state.config.rows[kTile]; ++r) {
    __builtin_memcpy(tile_state.bytes[kTile][r], static_cast<const uint8_t*>(rows) + r * stride,
                     tile_state.config.row_bytes[kTile]);
  }
}
template <int kTile>
LOCI_HD void tile_store(void* rows, int64_t stride) {
  for (int r = 0; r < tile_state.config.rows[kTile]; ++r) {
    __builtin_memcpy(static_cast<uint8_t*>(rows) + r * stride, tile_state.bytes[kTile][r],
                     tile_state.config.row_bytes[kTile]);
  }
}
// c[m][n] += sum over k, i of a[m][4k + i] * b[k][4n + i], signed bytes, 32-bit sums that wrap.
template <int kC, int kA, int kB>
LOCI_HD void tile_dot() {
  const TileConfig& config = tile_state.config;
  for (int m = 0; m < config.rows[kC]; ++m) {
    for (int n = 0; n < config.row_bytes[kC] / 4; ++n) {
      uint32_t sum;
      __builtin_memcpy(&sum, &tile_state.bytes[kC][m][4 * n], sizeof(sum));
      for (int k = 0; k < config.row_bytes[kA] / 4; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += static_cast<uint32_t>(static_cast<int8_t>(tile_state.bytes[kA][m][4 * k + i]) *
                                       static_cast<int8_t>(tile_state.bytes[kB][k][4 * n + i]));
        }
      }
      __builtin_memcpy(&tile_state.bytes[kC][m][4 * n], &sum, sizeof(sum));
    }
  }
}

#else

// In assembly: the intrinsics are macros that take literal numbers only.
LOCI_HD void tile_configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
LOCI_HD void tile_release() { asm volatile("tilerelease"); }

template <int kTile>
LOCI_HD void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "n"(kTile));
}
template <int kTile>
LOCI_HD void tile_load(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "n"(kTile), "r"(rows), "r"(stride) : "memory");
}
template <int kTile>
LOCI_HD void tile_store(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "n"(kTile), "r"(rows), "r"(stride) : "memory");
}
template <int kC, int kA, int kB>
LOCI_HD void tile_dot() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "n"(kC), "n"(kA), "n"(kB));
}

#endif

}  // namespace
}  // namespace loci::cpu::LOCI_ISA
