// Whole panels: the same bytes as the lane-by-lane repacking of repack.cc, four rows at a time in vectors of the
// baseline instruction set. Rows come in 16 bytes at a time and are transposed in words, for everything beyond that is
// the same operation on every word.
#include <cstring>

#include "kernels/cpu/repack.h"

namespace loci::cpu {
namespace {

using Words = uint32_t __attribute__((vector_size(16)));
using Bytes = uint8_t __attribute__((vector_size(16)));

constexpr uint32_t kLow4 = 0x0f0f0f0fu;
constexpr uint32_t kLow2 = 0x03030303u;
constexpr uint32_t kLow1 = 0x01010101u;

// The rows of a panel at the block in progress.
struct Block {
  const uint8_t* const* rows;  // [16]
  int64_t at;                  // bytes from each row's beginning

  const uint8_t* row(int r, int offset) const { return rows[r] + at + offset; }
};

void store(uint8_t* p, Words words) { std::memcpy(p, &words, sizeof words); }

// Word j of 16 bytes of four rows: w[j] has a row in each lane.
struct Quad {
  Words w[4];
};
Quad load(const Block& block, int quad, int offset) {
  Words r[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&r[i], block.row(4 * quad + i, offset), sizeof(Words));
  const Words low01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
  const Words low23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Words high01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const Words high23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  return {{__builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
           __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)}};
}

void put_half(const Block& block, int offset, uint8_t* out) {
  for (int r = 0; r < kPanelRows; ++r) std::memcpy(out + 2 * r, block.row(r, offset), 2);
}

// nib of 16 bytes whose low and high nibbles are elements i and 16 + i.
void put_nib(const Block& block, int offset, uint8_t* nib) {
  for (int quad = 0; quad < 4; ++quad) {
    const Quad q = load(block, quad, offset);
    for (int j = 0; j < 4; ++j) store(nib + 64 * j + 16 * quad, q.w[j]);
  }
}

// nib of 32 bytes that hold element i of one block in their low (or high) nibbles.
void put_nib_of_pair(const Block& block, int offset, bool high, uint8_t* nib) {
  for (int quad = 0; quad < 4; ++quad) {
    const Quad a = load(block, quad, offset), b = load(block, quad, offset + 16);
    for (int j = 0; j < 4; ++j) {
      store(nib + 64 * j + 16 * quad,
            high ? ((a.w[j] >> 4) & kLow4) | (b.w[j] & ~kLow4) : (a.w[j] & kLow4) | (b.w[j] & kLow4) << 4);
    }
  }
}

// hi from 32 bits, bit e = element e.
void put_hi_of_bits(const Block& block, int offset, uint8_t* hi) {
  for (int quad = 0; quad < 4; ++quad) {
    Words bits, word = {};
    for (int i = 0; i < 4; ++i) {
      uint32_t row_bits;
      std::memcpy(&row_bits, block.row(4 * quad + i, offset), sizeof row_bits);
      bits[i] = row_bits;
    }
    for (int j = 0; j < 8; ++j) {
      const Words four = (bits >> (4 * j)) & 15u;  // spread over four bytes: times 2^0 + 2^7 + 2^14 + 2^21
      word |= ((four | four << 7 | four << 14 | four << 21) & kLow1) << j;
    }
    store(hi + 16 * quad, word);
  }
}

// hi from bit `shift` of 32 bytes.
void put_hi_of_bytes(const Block& block, int offset, int shift, uint8_t* hi) {
  for (int quad = 0; quad < 4; ++quad) {
    const Quad a = load(block, quad, offset), b = load(block, quad, offset + 16);
    Words word = {};
    for (int j = 0; j < 4; ++j) {
      word |= ((a.w[j] >> shift) & kLow1) << j;
      word |= ((b.w[j] >> shift) & kLow1) << (4 + j);
    }
    store(hi + 16 * quad, word);
  }
}

// Two tops from bits shift, shift + 1 of 32 bytes.
void put_tops(const Block& block, int offset, int shift, uint8_t* tops) {
  for (int v = 0; v < 2; ++v) {
    for (int quad = 0; quad < 4; ++quad) {
      const Quad q = load(block, quad, offset + 16 * v);
      Words word = {};
      for (int j = 0; j < 4; ++j) word |= ((q.w[j] >> shift) & kLow2) << (2 * j);
      store(tops + 64 * v + 16 * quad, word);
    }
  }
}

// kCount <= 16 bytes of each row, byte j of all rows together.
template <int kCount>
void put_packed(const Block& block, int offset, uint8_t* out) {
  Bytes v[kPanelRows] = {};
  for (int r = 0; r < kPanelRows; ++r) std::memcpy(&v[r], block.row(r, offset), kCount);
  for (int round = 0; round < 4; ++round) {  // each brings rows half as far apart together
    Bytes next[kPanelRows];
    for (int i = 0; i < kPanelRows / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(v[i], v[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(v[i], v[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(v, next, sizeof v);
  }
  std::memcpy(out, v, kCount * kPanelRows);
}

void put_q4_0(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_nib(block, 2, unit + 32);
}
void put_q4_1(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_half(block, 2, unit + 32);
  put_nib(block, 4, unit + 64);
}
void put_q5_0(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_hi_of_bits(block, 2, unit + 32);
  put_nib(block, 6, unit + 96);
}
void put_q5_1(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_half(block, 2, unit + 32);
  put_hi_of_bits(block, 4, unit + 64);
  put_nib(block, 8, unit + 128);
}
void put_q8_0(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  for (int half = 0; half < 2; ++half) {
    for (int quad = 0; quad < 4; ++quad) {
      const Quad q = load(block, quad, 2 + 16 * half);
      for (int j = 0; j < 4; ++j) store(unit + 32 + 64 * (4 * half + j) + 16 * quad, q.w[j] ^ 0x80808080u);
    }
  }
}
void put_q2_k(const Block& block, uint8_t* unit) {
  put_half(block, 80, unit);
  put_half(block, 82, unit + 32);
  put_packed<16>(block, 0, unit + 64);
  for (int b = 0; b < 8; ++b) put_tops(block, 16 + 32 * (b / 4), 2 * (b % 4), unit + 320 + 128 * b);
}
void put_q3_k(const Block& block, uint8_t* unit) {
  put_half(block, 108, unit);
  put_packed<12>(block, 96, unit + 32);
  for (int b = 0; b < 8; ++b) {
    put_tops(block, 32 + 32 * (b / 4), 2 * (b % 4), unit + 224 + 192 * b);
    put_hi_of_bytes(block, 0, b, unit + 224 + 192 * b + 128);
  }
}
void put_q4_k(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_half(block, 2, unit + 32);
  put_packed<12>(block, 4, unit + 64);
  for (int b = 0; b < 8; ++b) put_nib_of_pair(block, 16 + 32 * (b / 2), b % 2 == 1, unit + 256 + 256 * b);
}
void put_q5_k(const Block& block, uint8_t* unit) {
  put_half(block, 0, unit);
  put_half(block, 2, unit + 32);
  put_packed<12>(block, 4, unit + 64);
  for (int b = 0; b < 8; ++b) {
    put_hi_of_bytes(block, 16, b, unit + 256 + 320 * b);
    put_nib_of_pair(block, 48 + 32 * (b / 2), b % 2 == 1, unit + 256 + 320 * b + 64);
  }
}
void put_q6_k(const Block& block, uint8_t* unit) {
  put_half(block, 208, unit);
  put_packed<16>(block, 192, unit + 32);
  for (int b = 0; b < 8; ++b) {
    const int half = b / 4, quarter = b % 4;
    put_nib_of_pair(block, 64 * half + 32 * (quarter % 2), quarter >= 2, unit + 288 + 384 * b);
    put_tops(block, 128 + 32 * half, 2 * quarter, unit + 288 + 384 * b + 256);
  }
}

template <void (*kPut)(const Block&, uint8_t*)>
bool repack_units(const uint8_t* const* rows, int64_t n_units, int block_bytes, uint8_t* panel) {
  for (int64_t u = 0; u < n_units; ++u) kPut({rows, u * block_bytes}, panel + u * block_bytes * kPanelRows);
  return true;
}

}  // namespace

bool repack_full_panel(PanelType type, const uint8_t* const* rows, int64_t k, uint8_t* panel) {
  switch (type) {
    case kPanelQ4_0:
    case kPanelIQ4_NL:
      return repack_units<put_q4_0>(rows, k / 32, 18, panel);
    case kPanelQ4_1:
      return repack_units<put_q4_1>(rows, k / 32, 20, panel);
    case kPanelQ5_0:
      return repack_units<put_q5_0>(rows, k / 32, 22, panel);
    case kPanelQ5_1:
      return repack_units<put_q5_1>(rows, k / 32, 24, panel);
    case kPanelQ8_0:
      return repack_units<put_q8_0>(rows, k / 32, 34, panel);
    case kPanelQ2_K:
      return repack_units<put_q2_k>(rows, k / 256, 84, panel);
    case kPanelQ3_K:
      return repack_units<put_q3_k>(rows, k / 256, 110, panel);
    case kPanelQ4_K:
      return repack_units<put_q4_k>(rows, k / 256, 144, panel);
    case kPanelQ5_K:
      return repack_units<put_q5_k>(rows, k / 256, 176, panel);
    case kPanelQ6_K:
      return repack_units<put_q6_k>(rows, k / 256, 210, panel);
    default:
      return false;
  }
}

}  // namespace loci::cpu
