#include "kernels/cpu/repack.h"

#include <cstring>

#include "kernels/check.h"

namespace loci::cpu {
namespace {

// Four elements at a time as one little-endian word: everything below moves or masks whole words.
uint32_t load32(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}
void store32(uint8_t* p, uint32_t word) { std::memcpy(p, &word, sizeof(word)); }
void copy16(uint8_t* dst, const uint8_t* src) { std::memcpy(dst, src, 2); }

constexpr uint32_t kLow4 = 0x0f0f0f0fu;
constexpr uint32_t kLow2 = 0x03030303u;
constexpr uint32_t kLow1 = 0x01010101u;

// 16 bytes whose low and high nibbles are elements i and 16 + i: the 32-element types' own pairing.
void put_nib(const uint8_t* q, int r, uint8_t* nib) {
  for (int j = 0; j < 4; ++j) store32(nib + 64 * j + 4 * r, load32(q + 4 * j));
}

// 32 bytes that hold element i of one block in a nibble of byte i (low or high).
template <bool kHigh>
void put_nib_of_pair(const uint8_t* q, int r, uint8_t* nib) {
  for (int j = 0; j < 4; ++j) {
    const uint32_t a = load32(q + 4 * j), b = load32(q + 16 + 4 * j);
    const uint32_t word = kHigh ? ((a >> 4) & kLow4) | (b & ~kLow4) : (a & kLow4) | (b & kLow4) << 4;
    store32(nib + 64 * j + 4 * r, word);
  }
}

// hi from 32 bits, bit e = element e: four bits spread over four bytes, eight times.
void put_hi_of_bits(uint32_t bits, int r, uint8_t* hi) {
  uint32_t word = 0;
  for (int j = 0; j < 8; ++j) word |= ((((bits >> (4 * j)) & 15u) * 0x00204081u) & kLow1) << j;
  store32(hi + 4 * r, word);
}

// hi from bit `shift` of 32 bytes.
void put_hi_of_bytes(const uint8_t* h, int shift, int r, uint8_t* hi) {
  uint32_t word = 0;
  for (int j = 0; j < 8; ++j) word |= ((load32(h + 4 * j) >> shift) & kLow1) << j;
  store32(hi + 4 * r, word);
}

// Two tops from bits shift, shift + 1 of 32 bytes.
void put_tops(const uint8_t* q, int shift, int r, uint8_t* tops) {
  for (int v = 0; v < 2; ++v) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) word |= ((load32(q + 16 * v + 4 * j) >> shift) & kLow2) << (2 * j);
    store32(tops + 64 * v + 4 * r, word);
  }
}

void put_packed(const uint8_t* bytes, int n, int r, uint8_t* out) {
  for (int j = 0; j < n; ++j) out[16 * j + r] = bytes[j];
}

// One block (or super-block) of lane r into its unit, per type.
void put_q4_0(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  put_nib(src + 2, r, unit + 32);
}
void put_q4_1(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  copy16(unit + 32 + 2 * r, src + 2);
  put_nib(src + 4, r, unit + 64);
}
void put_q5_0(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  put_hi_of_bits(load32(src + 2), r, unit + 32);
  put_nib(src + 6, r, unit + 96);
}
void put_q5_1(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  copy16(unit + 32 + 2 * r, src + 2);
  put_hi_of_bits(load32(src + 4), r, unit + 64);
  put_nib(src + 8, r, unit + 128);
}
void put_q8_0(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  for (int g = 0; g < 8; ++g) store32(unit + 32 + 64 * g + 4 * r, load32(src + 2 + 4 * g) ^ 0x80808080u);
}
void put_mxfp4(const uint8_t* src, int r, uint8_t* unit) {
  // Half of 2^(e - 127), as bf16: 2^-127 and 2^-128 are subnormal.
  const uint32_t e = src[0];
  const uint16_t scale = static_cast<uint16_t>(e < 2 ? 0x20u << e : (e - 1) << 7);
  std::memcpy(unit + 2 * r, &scale, sizeof(scale));
  put_nib(src + 1, r, unit + 32);
}
void put_q2_k(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src + 80);
  copy16(unit + 32 + 2 * r, src + 82);
  put_packed(src, 16, r, unit + 64);
  for (int b = 0; b < 8; ++b) put_tops(src + 16 + 32 * (b / 4), 2 * (b % 4), r, unit + 320 + 128 * b);
}
void put_q3_k(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src + 108);
  put_packed(src + 96, 12, r, unit + 32);
  for (int b = 0; b < 8; ++b) {
    put_tops(src + 32 + 32 * (b / 4), 2 * (b % 4), r, unit + 224 + 192 * b);
    put_hi_of_bytes(src, b, r, unit + 224 + 192 * b + 128);
  }
}
void put_q4_k(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  copy16(unit + 32 + 2 * r, src + 2);
  put_packed(src + 4, 12, r, unit + 64);
  for (int pair = 0; pair < 4; ++pair) {
    put_nib_of_pair<false>(src + 16 + 32 * pair, r, unit + 256 + 512 * pair);
    put_nib_of_pair<true>(src + 16 + 32 * pair, r, unit + 512 + 512 * pair);
  }
}
void put_q5_k(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src);
  copy16(unit + 32 + 2 * r, src + 2);
  put_packed(src + 4, 12, r, unit + 64);
  for (int b = 0; b < 8; ++b) {
    uint8_t* group = unit + 256 + 320 * b;
    const uint8_t* q = src + 48 + 32 * (b / 2);
    put_hi_of_bytes(src + 16, b, r, group);
    if (b % 2 == 0) {
      put_nib_of_pair<false>(q, r, group + 64);
    } else {
      put_nib_of_pair<true>(q, r, group + 64);
    }
  }
}
void put_q6_k(const uint8_t* src, int r, uint8_t* unit) {
  copy16(unit + 2 * r, src + 208);
  put_packed(src + 192, 16, r, unit + 32);
  for (int b = 0; b < 8; ++b) {
    uint8_t* group = unit + 288 + 384 * b;
    const int half = b / 4, quarter = b % 4;
    const uint8_t* q = src + 64 * half + 32 * (quarter % 2);
    if (quarter < 2) {
      put_nib_of_pair<false>(q, r, group);
    } else {
      put_nib_of_pair<true>(q, r, group);
    }
    put_tops(src + 128 + 32 * half, 2 * quarter, r, group + 256);
  }
}

// The way back, the same parts in the same order: lane r of a unit into one block of the file. What is put together
// from several parts of a unit is or-ed: the block is zero before.
void take_nib(const uint8_t* nib, int r, uint8_t* q) {
  for (int j = 0; j < 4; ++j) store32(q + 4 * j, load32(nib + 64 * j + 4 * r));
}

// 32 bytes whose low nibbles are one block and whose high nibbles another.
void take_nib_pair(const uint8_t* low, const uint8_t* high, int r, uint8_t* q) {
  for (int j = 0; j < 4; ++j) {
    const uint32_t l = load32(low + 64 * j + 4 * r), h = load32(high + 64 * j + 4 * r);
    store32(q + 4 * j, (l & kLow4) | (h & kLow4) << 4);
    store32(q + 16 + 4 * j, ((l >> 4) & kLow4) | (h & ~kLow4));
  }
}

uint32_t take_hi_bits(const uint8_t* hi, int r) {
  const uint32_t word = load32(hi + 4 * r);
  uint32_t bits = 0;  // the factor brings bits 0, 8, 16, 24 together at 24..27
  for (int j = 0; j < 8; ++j) bits |= ((((word >> j) & kLow1) * 0x01020408u) >> 24 & 15u) << (4 * j);
  return bits;
}

void take_hi_bytes(const uint8_t* hi, int shift, int r, uint8_t* h) {
  const uint32_t word = load32(hi + 4 * r);
  for (int j = 0; j < 8; ++j) store32(h + 4 * j, load32(h + 4 * j) | ((word >> j) & kLow1) << shift);
}

void take_tops(const uint8_t* tops, int shift, int r, uint8_t* q) {
  for (int v = 0; v < 2; ++v) {
    const uint32_t word = load32(tops + 64 * v + 4 * r);
    for (int j = 0; j < 4; ++j) {
      uint8_t* at = q + 16 * v + 4 * j;
      store32(at, load32(at) | ((word >> (2 * j)) & kLow2) << shift);
    }
  }
}

void take_packed(const uint8_t* packed, int n, int r, uint8_t* bytes) {
  for (int j = 0; j < n; ++j) bytes[j] = packed[16 * j + r];
}

void take_q4_0(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  take_nib(unit + 32, r, dst + 2);
}
void take_q4_1(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  copy16(dst + 2, unit + 32 + 2 * r);
  take_nib(unit + 64, r, dst + 4);
}
void take_q5_0(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  store32(dst + 2, take_hi_bits(unit + 32, r));
  take_nib(unit + 96, r, dst + 6);
}
void take_q5_1(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  copy16(dst + 2, unit + 32 + 2 * r);
  store32(dst + 4, take_hi_bits(unit + 64, r));
  take_nib(unit + 128, r, dst + 8);
}
void take_q8_0(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  for (int g = 0; g < 8; ++g) store32(dst + 2 + 4 * g, load32(unit + 32 + 64 * g + 4 * r) ^ 0x80808080u);
}
void take_mxfp4(const uint8_t* unit, int r, uint8_t* dst) {
  uint16_t scale;
  std::memcpy(&scale, unit + 2 * r, sizeof(scale));
  dst[0] = static_cast<uint8_t>(scale < 0x80 ? scale >> 6 : (scale >> 7) + 1);
  take_nib(unit + 32, r, dst + 1);
}
void take_q2_k(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst + 80, unit + 2 * r);
  copy16(dst + 82, unit + 32 + 2 * r);
  take_packed(unit + 64, 16, r, dst);
  for (int b = 0; b < 8; ++b) take_tops(unit + 320 + 128 * b, 2 * (b % 4), r, dst + 16 + 32 * (b / 4));
}
void take_q3_k(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst + 108, unit + 2 * r);
  take_packed(unit + 32, 12, r, dst + 96);
  for (int b = 0; b < 8; ++b) {
    take_tops(unit + 224 + 192 * b, 2 * (b % 4), r, dst + 32 + 32 * (b / 4));
    take_hi_bytes(unit + 224 + 192 * b + 128, b, r, dst);
  }
}
void take_q4_k(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  copy16(dst + 2, unit + 32 + 2 * r);
  take_packed(unit + 64, 12, r, dst + 4);
  for (int pair = 0; pair < 4; ++pair) {
    const uint8_t* low = unit + 256 + 512 * pair;
    take_nib_pair(low, low + 256, r, dst + 16 + 32 * pair);
  }
}
void take_q5_k(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst, unit + 2 * r);
  copy16(dst + 2, unit + 32 + 2 * r);
  take_packed(unit + 64, 12, r, dst + 4);
  for (int b = 0; b < 8; ++b) {
    const uint8_t* group = unit + 256 + 320 * b;
    take_hi_bytes(group, b, r, dst + 16);
    if (b % 2 == 0) take_nib_pair(group + 64, group + 320 + 64, r, dst + 48 + 16 * b);
  }
}
void take_q6_k(const uint8_t* unit, int r, uint8_t* dst) {
  copy16(dst + 208, unit + 2 * r);
  take_packed(unit + 32, 16, r, dst + 192);
  for (int b = 0; b < 8; ++b) {
    const uint8_t* group = unit + 288 + 384 * b;
    const int half = b / 4, quarter = b % 4;
    if (quarter < 2) take_nib_pair(group, group + 2 * 384, r, dst + 64 * half + 32 * quarter);
    take_tops(group + 256, 2 * quarter, r, dst + 128 + 32 * half);
  }
}

template <void (*kPut)(const uint8_t*, int, uint8_t*)>
void repack_units(const uint8_t* const* rows, int n_rows, int64_t n_units, int block_bytes, int unit_bytes,
                  uint8_t* panel) {
  for (int64_t u = 0; u < n_units; ++u) {
    for (int r = 0; r < n_rows; ++r) kPut(rows[r] + u * block_bytes, r, panel + u * unit_bytes);
  }
}

template <typename T>
void transpose(const uint8_t* const* rows, int n_rows, int64_t k, uint8_t* panel) {
  constexpr int kRun = 64 / sizeof(T);  // elements of a row read at a time
  for (int64_t first = 0; first < k; first += kRun) {
    const int64_t n = k - first < kRun ? k - first : kRun;
    for (int r = 0; r < n_rows; ++r) {
      for (int64_t i = first; i < first + n; ++i) {
        std::memcpy(panel + (i * kPanelRows + r) * sizeof(T), rows[r] + i * sizeof(T), sizeof(T));
      }
    }
  }
}

template <void (*kTake)(const uint8_t*, int, uint8_t*)>
void restore_units(const uint8_t* panel, int lane, int64_t first, int64_t n_units, int block_bytes, int unit_bytes,
                   uint8_t* blocks) {
  std::memset(blocks, 0, static_cast<size_t>(n_units * block_bytes));
  for (int64_t u = 0; u < n_units; ++u) kTake(panel + (first + u) * unit_bytes, lane, blocks + u * block_bytes);
}

template <typename T>
void restore_floats(const uint8_t* panel, int lane, int64_t first, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out + i * sizeof(T), panel + ((first + i) * kPanelRows + lane) * sizeof(T), sizeof(T));
  }
}

}  // namespace

void repack_panel(PanelType type, const uint8_t* const* rows, int n_rows, int64_t k, uint8_t* panel) {
  switch (type) {
    case kPanelQ4_0:
      return repack_units<put_q4_0>(rows, n_rows, k / 32, 18, 288, panel);
    case kPanelQ4_1:
      return repack_units<put_q4_1>(rows, n_rows, k / 32, 20, 320, panel);
    case kPanelQ5_0:
      return repack_units<put_q5_0>(rows, n_rows, k / 32, 22, 352, panel);
    case kPanelQ5_1:
      return repack_units<put_q5_1>(rows, n_rows, k / 32, 24, 384, panel);
    case kPanelQ8_0:
      return repack_units<put_q8_0>(rows, n_rows, k / 32, 34, 544, panel);
    case kPanelIQ4_NL:
      return repack_units<put_q4_0>(rows, n_rows, k / 32, 18, 288, panel);
    case kPanelMXFP4:
      return repack_units<put_mxfp4>(rows, n_rows, k / 32, 17, 288, panel);
    case kPanelQ2_K:
      return repack_units<put_q2_k>(rows, n_rows, k / 256, 84, 1344, panel);
    case kPanelQ3_K:
      return repack_units<put_q3_k>(rows, n_rows, k / 256, 110, 1760, panel);
    case kPanelQ4_K:
      return repack_units<put_q4_k>(rows, n_rows, k / 256, 144, 2304, panel);
    case kPanelQ5_K:
      return repack_units<put_q5_k>(rows, n_rows, k / 256, 176, 2816, panel);
    case kPanelQ6_K:
      return repack_units<put_q6_k>(rows, n_rows, k / 256, 210, 3360, panel);
    case kPanelF32:
      return transpose<uint32_t>(rows, n_rows, k, panel);
    case kPanelF16:
    case kPanelBF16:
      return transpose<uint16_t>(rows, n_rows, k, panel);
    case kPanelTypeCount:
      break;
  }
  LOCI_CHECK(false, "no panel form: ", static_cast<int>(type));
}

void restore_row(PanelType type, const uint8_t* panel, int lane, int64_t first, int64_t n, uint8_t* blocks) {
  switch (type) {
    case kPanelQ4_0:
      return restore_units<take_q4_0>(panel, lane, first / 32, n / 32, 18, 288, blocks);
    case kPanelQ4_1:
      return restore_units<take_q4_1>(panel, lane, first / 32, n / 32, 20, 320, blocks);
    case kPanelQ5_0:
      return restore_units<take_q5_0>(panel, lane, first / 32, n / 32, 22, 352, blocks);
    case kPanelQ5_1:
      return restore_units<take_q5_1>(panel, lane, first / 32, n / 32, 24, 384, blocks);
    case kPanelQ8_0:
      return restore_units<take_q8_0>(panel, lane, first / 32, n / 32, 34, 544, blocks);
    case kPanelIQ4_NL:
      return restore_units<take_q4_0>(panel, lane, first / 32, n / 32, 18, 288, blocks);
    case kPanelMXFP4:
      return restore_units<take_mxfp4>(panel, lane, first / 32, n / 32, 17, 288, blocks);
    case kPanelQ2_K:
      return restore_units<take_q2_k>(panel, lane, first / 256, n / 256, 84, 1344, blocks);
    case kPanelQ3_K:
      return restore_units<take_q3_k>(panel, lane, first / 256, n / 256, 110, 1760, blocks);
    case kPanelQ4_K:
      return restore_units<take_q4_k>(panel, lane, first / 256, n / 256, 144, 2304, blocks);
    case kPanelQ5_K:
      return restore_units<take_q5_k>(panel, lane, first / 256, n / 256, 176, 2816, blocks);
    case kPanelQ6_K:
      return restore_units<take_q6_k>(panel, lane, first / 256, n / 256, 210, 3360, blocks);
    case kPanelF32:
      return restore_floats<uint32_t>(panel, lane, first, n, blocks);
    case kPanelF16:
    case kPanelBF16:
      return restore_floats<uint16_t>(panel, lane, first, n, blocks);
    case kPanelTypeCount:
      break;
  }
  LOCI_CHECK(false, "no panel form: ", static_cast<int>(type));
}

}  // namespace loci::cpu
