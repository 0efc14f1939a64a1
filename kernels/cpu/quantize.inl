// Activation tiles: int8 codes per block of 32 with an f32 scale, and plain f32 tiles (panel_format.h).
// Pasted into isa_kernels.cc.

// A block whose largest magnitude is below this counts as zero: 127 / amax must stay finite, and products of scales
// normal, so that every ISA rounds alike.
constexpr float kSmallestAmax = 0x1p-90f;

// The tile is a byte array: its numbers are written by memcpy.
template <class T>
LOCI_HD void put(uint8_t* place, T value) {
  __builtin_memcpy(place, &value, sizeof(value));
}
// Two 16-bit numbers, `low` first in memory.
LOCI_HD uint32_t packed(int32_t low, int32_t high) {
  return (static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high) << 16;
}

// One block of one token: codes[32], and the token's fields, `field` bytes apart, in their order in the tile.
//   d = amax / 127, code = round_to_even(x * (127 / amax)). An infinity or NaN in the block makes d non-finite, and so
//   every output of the token.
LOCI_HD void quantize_block(const float* x, int8_t* codes, uint8_t* fields, int field) {
  constexpr int kVectors = kBlock / VecF::kLanes;
  VecF v[kVectors];
  VecI largest = VecI::zero();  // magnitudes compare as integers; NaN compares above infinity
  for (int i = 0; i < kVectors; ++i) {
    v[i] = VecF::load(x + i * VecF::kLanes);
    largest = max(largest, as_int(v[i]) & VecI::splat(0x7fffffff));
  }
  const int32_t amax_bits = reduce_max(largest);
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof(amax));
  const bool is_zero = amax < kSmallestAmax;
  const VecF inverse = VecF::splat(is_zero ? 0.0f : 127.0f / amax);
  VecI code[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    code[i] = max(VecI::splat(-127), min(VecI::splat(127), round_to_int(v[i] * inverse)));
    code[i].store_i8(codes + i * VecF::kLanes);
  }
  int32_t pairs[2][2];
  pair_sums(code, pairs);
  const int32_t sum0 = pairs[0][0] + pairs[0][1], sum1 = pairs[1][0] + pairs[1][1];
  const float d = is_zero ? 0.0f : amax / 127.0f;
  put(fields, d);
  put(fields + field, d * static_cast<float>(sum0 + sum1));
  put(fields + 2 * field, -128 * (sum0 + sum1));
  put(fields + 3 * field, -128 * sum0);
  put(fields + 4 * field, -128 * sum1);
  put(fields + 5 * field, packed(-pairs[0][0] - pairs[1][0], -pairs[0][1] - pairs[1][1]));
  put(fields + 6 * field, packed(-pairs[0][0], -pairs[0][1]));
  put(fields + 7 * field, packed(-pairs[1][0], -pairs[1][1]));
}

void quantize_tile(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t block_begin,
                   int64_t block_end, uint8_t* tile) noexcept {
  for (int64_t block = block_begin; block < block_end; ++block) {
    uint8_t* base = tile + block * kTileBytes * tile_tokens;
    if (n_tokens < tile_tokens) __builtin_memset(base, 0, static_cast<size_t>(tile_tokens) * kTileBytes);
    for (int t = 0; t < n_tokens; ++t) {
      quantize_block(x + t * x_stride + block * kBlock, reinterpret_cast<int8_t*>(base) + t * kBlock,
                     base + tile_tokens * kBlock + 4 * t, 4 * tile_tokens);
    }
  }
}

void pack_f32_tile(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t k_begin, int64_t k_end,
                   float* tile) noexcept {
  for (int64_t k = k_begin; k < k_end; ++k) {
    float* out = tile + k * tile_tokens;
    for (int t = 0; t < n_tokens; ++t) out[t] = x[t * x_stride + k];
    for (int t = n_tokens; t < tile_tokens; ++t) out[t] = 0.0f;
  }
}
