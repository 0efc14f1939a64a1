// Activation tiles: int8 codes per block of 32 with an f32 scale, and plain f32 tiles (panel_format.h).
// Pasted into isa_kernels.cc.

// A block whose largest magnitude is below this counts as zero: 127 / amax must stay finite, and products of scales
// normal, so that every ISA rounds alike.
constexpr float kSmallestAmax = 0x1p-90f;

// One block of one token. codes[32] and the fields of token t of the tile.
//   d = amax / 127, code = round_to_even(x * (127 / amax)). An infinity or NaN in the block makes d non-finite, and so
//   every output of the token.
LOCI_HD void quantize_block(const float* x, int8_t* codes, float* d, float* s, int32_t* n, int32_t* n0, int32_t* n1) {
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
  VecI sum[2] = {VecI::zero(), VecI::zero()};
  for (int i = 0; i < kVectors; ++i) {
    const VecI code = max(VecI::splat(-127), min(VecI::splat(127), round_to_int(v[i] * inverse)));
    code.store_i8(codes + i * VecF::kLanes);
    VecI& half = sum[i * VecF::kLanes / 16];
    half = half + code;
  }
  const int32_t sum0 = reduce_add(sum[0]);
  const int32_t sum1 = reduce_add(sum[1]);
  *d = is_zero ? 0.0f : amax / 127.0f;
  *s = *d * static_cast<float>(sum0 + sum1);
  *n = -128 * (sum0 + sum1);
  *n0 = -128 * sum0;
  *n1 = -128 * sum1;
}

void quantize_tile(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t block_begin,
                   int64_t block_end, uint8_t* tile) noexcept {
  for (int64_t block = block_begin; block < block_end; ++block) {
    uint8_t* base = tile + block * kTileBytes * tile_tokens;
    int8_t* codes = reinterpret_cast<int8_t*>(base);
    // The fields of one block, as arrays over tokens; the tile is a byte array, so they are written by memcpy.
    float d[kMaxTileTokens] = {}, s[kMaxTileTokens] = {};
    int32_t n[kMaxTileTokens] = {}, n0[kMaxTileTokens] = {}, n1[kMaxTileTokens] = {};
    for (int t = 0; t < n_tokens; ++t) {
      quantize_block(x + t * x_stride + block * kBlock, codes + t * kBlock, d + t, s + t, n + t, n0 + t, n1 + t);
    }
    __builtin_memset(codes + n_tokens * kBlock, 0, static_cast<size_t>((tile_tokens - n_tokens) * kBlock));
    const size_t field_bytes = static_cast<size_t>(tile_tokens) * 4;
    uint8_t* fields = base + tile_tokens * kBlock;
    __builtin_memcpy(fields, d, field_bytes);
    __builtin_memcpy(fields + field_bytes, s, field_bytes);
    __builtin_memcpy(fields + 2 * field_bytes, n, field_bytes);
    __builtin_memcpy(fields + 3 * field_bytes, n0, field_bytes);
    __builtin_memcpy(fields + 4 * field_bytes, n1, field_bytes);
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
