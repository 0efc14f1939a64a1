// KV format q8_0: blocks of 32 channels, codes -127..127, scale = largest magnitude / 127. 8.5 bits each.
#pragma once
#include <cstdint>

#include "kernels/hd.h"
#include "kernels/kv_format/kv_tile.h"

namespace loci {

// Codes are signed bytes, placed as the plain formats' values are.
struct KvQ8_0 : BlockKvTile<KvQ8_0> {
  static constexpr KvFormat kFormat = KvFormat::kQ8_0;
  static constexpr const char* kName = "q8_0";
  static constexpr float kLeast = -127.0f, kMost = 127.0f;
  LOCI_HD static int64_t code_bytes(int head_dim) { return int64_t{kKvTileTokens} * head_dim; }

  // The block's scale before it is rounded to f16. `amax`: the largest magnitude; `positive`: does a value equal it?
  LOCI_HD static float scale_of(float amax, bool) { return amax / 127.0f; }
  LOCI_HD static void encode(const float* x, KvBlock& block) {
    float amax = 0;
    for (int i = 0; i < kBlock; ++i) {
      const float magnitude = __builtin_fabsf(x[i]);
      amax = magnitude <= amax ? amax : magnitude;  // a NaN stays
      if (amax != amax) break;
    }
    encode_kv_block(x, amax, scale_of(amax, true), kLeast, kMost, block);
  }

  LOCI_HD static int get_k(const uint8_t* codes, int token, int channel, int) {
    return static_cast<int8_t>(codes[k_tile_index(token, channel)]);
  }
  LOCI_HD static void set_k(uint8_t* codes, int token, int channel, int, int8_t code) {
    codes[k_tile_index(token, channel)] = static_cast<uint8_t>(code);
  }
  LOCI_HD static int get_v(const uint8_t* codes, int token, int channel, int head_dim) {
    return static_cast<int8_t>(codes[v_tile_index(token, channel, head_dim)]);
  }
  LOCI_HD static void set_v(uint8_t* codes, int token, int channel, int head_dim, int8_t code) {
    codes[v_tile_index(token, channel, head_dim)] = static_cast<uint8_t>(code);
  }
};

}  // namespace loci
