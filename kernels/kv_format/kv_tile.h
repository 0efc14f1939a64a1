// Tiles: how 16 tokens of one KV head lie in a page, and the plain way to write and read them. Formats derive from one
// of the two structs here; kernels know the layout, tests compare them with these functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/kv_format/kv_layer.h"
#include "kernels/quant/half.h"

namespace loci {

inline constexpr int kKvTileTokens = 16;
inline constexpr int kKvTileAlign = 64;

LOCI_HD int64_t k_tile_index(int token, int channel) { return int64_t{channel} * kKvTileTokens + token; }
LOCI_HD int64_t v_tile_index(int token, int channel, int head_dim) { return int64_t{token} * head_dim + channel; }
LOCI_HD int64_t aligned_tile_bytes(int64_t bytes) { return (bytes + kKvTileAlign - 1) / kKvTileAlign * kKvTileAlign; }

// Formats whose values stand alone. Format gives: Code (one stored value), decode, encode.
//   K tile [head_dim][16]   (channel-major: 16 tokens side by side)
//   V tile [16][head_dim]   (token-major)
template <typename Format>
struct PlainKvTile {
  static constexpr int kBlock = 1;
  LOCI_HD static int64_t tile_bytes(int head_dim) {
    return int64_t{kKvTileTokens} * head_dim * static_cast<int64_t>(sizeof(typename Format::Code));
  }
  LOCI_HD static float read_k(const std::byte* tile, int token, int channel, int) {
    return Format::decode(load(tile, k_tile_index(token, channel)));
  }
  LOCI_HD static float read_v(const std::byte* tile, int token, int channel, int head_dim) {
    return Format::decode(load(tile, v_tile_index(token, channel, head_dim)));
  }
  LOCI_HD static void write_k(std::byte* tile, int token, int head_dim, const float* row) {
    for (int c = 0; c < head_dim; ++c) save(tile, k_tile_index(token, c), Format::encode(row[c]));
  }
  LOCI_HD static void write_v(std::byte* tile, int token, int head_dim, const float* row) {
    for (int c = 0; c < head_dim; ++c) save(tile, v_tile_index(token, c, head_dim), Format::encode(row[c]));
  }

 private:
  LOCI_HD static auto load(const std::byte* tile, int64_t index) {
    typename Format::Code code;
    __builtin_memcpy(&code, tile + index * static_cast<int64_t>(sizeof(code)), sizeof(code));
    return code;
  }
  template <typename Code>
  LOCI_HD static void save(std::byte* tile, int64_t index, Code code) {
    __builtin_memcpy(tile + index * static_cast<int64_t>(sizeof(code)), &code, sizeof(code));
  }
};

// 32 neighbouring channels of a token: codes around 0 and an f16 scale; the value is code * scale, exact in f32.
struct KvBlock {
  static constexpr int kChannels = 32;
  uint16_t scale = 0;
  int8_t codes[kChannels] = {};
};

// The rounding of both block formats: `scale` for the block, codes round_to_even(x / scale) in [least, most]. A block
// that cannot be represented (an infinity or NaN in it, a scale past f16) becomes NaN as a whole; one whose scale
// rounds to zero becomes zero.
LOCI_HD void encode_kv_block(const float* x, float amax, float scale, float least, float most, KvBlock& block) {
  block = KvBlock{};
  const uint16_t half = quant::float_to_half(scale);
  if (!(amax < __builtin_inff()) || (half & 0x7c00u) == 0x7c00u) {
    block.scale = 0x7e00u;
    return;
  }
  if ((half & 0x7fffu) == 0) return;
  block.scale = half;
  const float inverse = 1.0f / quant::half_to_float(half);
  for (int i = 0; i < KvBlock::kChannels; ++i) {
    float code = x[i] * inverse;
    code = code < least ? least : code > most ? most : code;
    // Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits.
    block.codes[i] = static_cast<int8_t>((code + 12582912.0f) - 12582912.0f);
  }
}

// Formats of blocks: after the codes of the whole tile the scales, f16 [head_dim / 32][16 tokens]. A token's bytes are
// its own: threads that write neighbouring tokens do not meet. Format gives: code_bytes(head_dim), encode(x, block),
// and get_k, set_k, get_v, set_v(codes, token, channel, head_dim) for one code.
template <typename Format>
struct BlockKvTile {
  static constexpr int kBlock = KvBlock::kChannels;
  LOCI_HD static int64_t tile_bytes(int head_dim) {
    return aligned_tile_bytes(Format::code_bytes(head_dim) + int64_t{head_dim} / kBlock * kKvTileTokens * 2);
  }
  // Bytes from the tile's start to the scales of a channel's block, tokens side by side.
  LOCI_HD static int64_t scale_offset(int channel, int head_dim) {
    return Format::code_bytes(head_dim) + int64_t{channel} / kBlock * kKvTileTokens * 2;
  }
  LOCI_HD static float read_k(const std::byte* tile, int token, int channel, int head_dim) {
    return static_cast<float>(Format::get_k(codes(tile), token, channel, head_dim)) *
           scale(tile, token, channel, head_dim);
  }
  LOCI_HD static float read_v(const std::byte* tile, int token, int channel, int head_dim) {
    return static_cast<float>(Format::get_v(codes(tile), token, channel, head_dim)) *
           scale(tile, token, channel, head_dim);
  }
  LOCI_HD static void write_k(std::byte* tile, int token, int head_dim, const float* row) {
    write(tile, token, head_dim, row, Format::set_k);
  }
  LOCI_HD static void write_v(std::byte* tile, int token, int head_dim, const float* row) {
    write(tile, token, head_dim, row, Format::set_v);
  }
  // The rest of write_k or write_v once the block is known.
  template <typename SetCode>
  LOCI_HD static void put_block(std::byte* tile, int token, int channel, int head_dim, const KvBlock& block,
                                SetCode&& set) {
    auto* bytes = reinterpret_cast<uint8_t*>(tile);
    for (int i = 0; i < kBlock; ++i) set(bytes, token, channel + i, head_dim, block.codes[i]);
    __builtin_memcpy(tile + scale_offset(channel, head_dim) + token * 2, &block.scale, 2);
  }

 private:
  LOCI_HD static const uint8_t* codes(const std::byte* tile) { return reinterpret_cast<const uint8_t*>(tile); }
  LOCI_HD static float scale(const std::byte* tile, int token, int channel, int head_dim) {
    uint16_t half;
    __builtin_memcpy(&half, tile + scale_offset(channel, head_dim) + token * 2, 2);
    return quant::half_to_float(half);
  }
  template <typename SetCode>
  LOCI_HD static void write(std::byte* tile, int token, int head_dim, const float* row, SetCode&& set) {
    for (int channel = 0; channel < head_dim; channel += kBlock) {
      KvBlock block;
      Format::encode(row + channel, block);
      put_block(tile, token, channel, head_dim, block, set);
    }
  }
};

}  // namespace loci
