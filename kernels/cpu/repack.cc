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

}  // namespace loci::cpu
