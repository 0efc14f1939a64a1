// Panels: the layout of weight matrices on the CPU. Activation tiles: the layout of what they are multiplied with.
//
// Panel p holds rows 16p .. 16p+15 over all of K, unit after unit; lane r is row 16p + r; rows past N are zero.
// f16 arrays are [16], one entry per lane. A unit has exactly 16 times the bytes of the file's block (MXFP4: its scale
// grows from one byte to two).
//   nib(256)  four vectors j = 0..3: byte 64j + 4r + i = element 4j+i of row r in the low nibble, 16+4j+i in the high
//   hi(64)    byte 4r + i, bit j = top bit of element 4j+i, j = 0..7
//   top(64)   byte 4r + i, bits 2j, 2j+1 = two bits of element 4j+i, j = 0..3; a second one holds elements 16..31
//   Q4_0   288: d | nib                      Q4_1   320: d | m | nib
//   Q5_0   352: d | hi | nib                 Q5_1   384: d | m | hi | nib
//   Q8_0   544: d | 8 x 64, byte 64g + 4r + i = code of element 4g+i, plus 128
//   IQ4_NL 288: d | nib                      MXFP4  288: scale / 2 as bf16 | nib
//   Q2_K  1344: d | dmin | s[16][16] | 8 x (top, top)              s: GGUF's scale byte of 16-element group k, row r
//   Q3_K  1760: d | s[12][16] | 8 x (top, top, hi)                 s: GGUF's packed byte j of row r at 16j + r
//   Q4_K  2304: d | dmin | s[12][16] | 8 x nib
//   Q5_K  2816: d | dmin | s[12][16] | 8 x (hi, nib)
//   Q6_K  3360: d | i8 s[16][16] | 8 x (nib, top, top)
//   F32, F16, BF16: [K][16] in the source type
// Every block of 32 of a super-block reads one contiguous run: the hardware prefetcher follows it.
//
// Activation tile of T tokens: per block of 32 elements, in order, kTileBytes * T bytes:
//   q[T][32] i8 | d[T] f32 | s[T] f32 | n[T] i32 | n0[T] i32 | n1[T] i32 | p[T][2] i16 | p0[T][2] i16 | p1[T][2] i16
// with d = amax / 127, s = d * sum q, n0 / n1 = -128 * sum of the first / second 16 codes, n = n0 + n1; p0 / p1 = minus
// the sum of the first / second 16 codes at 4g, 4g+1 and of those at 4g+2, 4g+3, p = p0 + p1.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace loci::cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlock = 32;            // elements per activation scale
inline constexpr int kUnpackElements = 256;  // elements of K unpacked to f32 at a time
inline constexpr int kMaxTileTokens = 16;
inline constexpr int kTileBytes = 64;        // per token and block
inline constexpr int kSlabBlockBytes = 768;  // a decoded block of 16 rows, at most (kernel_table.h)

enum PanelType : int {
  kPanelQ4_0,
  kPanelQ4_1,
  kPanelQ5_0,
  kPanelQ5_1,
  kPanelQ8_0,
  kPanelIQ4_NL,
  kPanelMXFP4,
  kPanelQ2_K,
  kPanelQ3_K,
  kPanelQ4_K,
  kPanelQ5_K,
  kPanelQ6_K,
  kPanelF32,
  kPanelF16,
  kPanelBF16,
  kPanelTypeCount,
};

// Tokens of the smallest tile kernel that holds m rows (1 <= m <= 16). Sizes are not powers of two only: cutting 3
// into 2 + 1 would unpack the weights twice.
constexpr int tile_tokens_for(int m) { return m <= 8 ? m : (m + 1) / 2 * 2; }

}  // namespace loci::cpu
