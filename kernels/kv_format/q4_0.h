// KV format q4_0: blocks of 32 channels, codes -8..7, scale = the value of largest magnitude / -8. 4.5 bits each.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/kv_format/kv_tile.h"

namespace loci {

// Two codes in a byte, each plus 8.
//   K [head_dim / 2][16]: the byte of a token holds channel 2j in its low half, channel 2j + 1 in its high half
//   V [16][head_dim / 2]: 8 bytes hold 16 channels, the first 8 in the low halves, the other 8 in the high halves
struct KvQ4_0 : BlockKvTile<KvQ4_0> {
  static constexpr KvFormat kFormat = KvFormat::kQ4_0;
  static constexpr const char* kName = "q4_0";
  static constexpr float kLeast = -8.0f, kMost = 7.0f;
  LOCI_HD static int64_t code_bytes(int head_dim) { return int64_t{kKvTileTokens} * head_dim / 2; }

  // The extreme value, the positive one of two that are equally far from zero, becomes code -8.
  LOCI_HD static float scale_of(float amax, bool positive) { return (positive ? amax : -amax) * -0.125f; }
  LOCI_HD static void encode(const float* x, KvBlock& block) {
    float amax = 0;
    bool positive = true;
    for (int i = 0; i < kBlock; ++i) {
      const float magnitude = __builtin_fabsf(x[i]);
      if (magnitude < amax || (magnitude == amax && (positive || x[i] < 0))) continue;
      amax = magnitude;
      positive = x[i] > 0;
      if (amax != amax) break;
    }
    encode_kv_block(x, amax, scale_of(amax, positive), kLeast, kMost, block);
  }

  LOCI_HD static int get_k(const uint8_t* codes, int token, int channel, int) {
    return half(codes[k_tile_index(token, channel / 2)], channel % 2);
  }
  LOCI_HD static void set_k(uint8_t* codes, int token, int channel, int, int8_t code) {
    set_half(codes[k_tile_index(token, channel / 2)], channel % 2, code);
  }
  LOCI_HD static int get_v(const uint8_t* codes, int token, int channel, int head_dim) {
    return half(codes[v_byte(token, channel, head_dim)], channel % 16 / 8);
  }
  LOCI_HD static void set_v(uint8_t* codes, int token, int channel, int head_dim, int8_t code) {
    set_half(codes[v_byte(token, channel, head_dim)], channel % 16 / 8, code);
  }

 private:
  LOCI_HD static int64_t v_byte(int token, int channel, int head_dim) {
    return int64_t{token} * (head_dim / 2) + channel / 16 * 8 + channel % 8;
  }
  LOCI_HD static int half(uint8_t byte, int high) { return (byte >> (4 * high) & 15) - 8; }
  LOCI_HD static void set_half(uint8_t& byte, int high, int8_t code) {
    const int bits = (code + 8) << (4 * high);
    byte = static_cast<uint8_t>((byte & (high ? 0x0f : 0xf0)) | bits);
  }
};

}  // namespace loci
