// Activation tiles: int8 codes per block of 32 with an f32 scale, and plain f32 tiles (panel_format.h).
// Pasted into isa_kernels.cc.

// A block whose largest magnitude is below this counts as zero: 127 / amax must stay finite, and products of scales
// normal, so that every ISA rounds alike.
constexpr float kSmallestAmax = 0x1p-90f;

// What the tokens of a tile share while one block of theirs is quantized, an array entry per token, so that all but the
// elements themselves is computed for many tokens at a time.
struct BlockFields {
  alignas(64) float amax[kMaxTileTokens] = {};
  alignas(64) float inverse[kMaxTileTokens];
  alignas(64) int32_t pairs[2][2][kMaxTileTokens] = {};  // pair_sums() of the codes
};

LOCI_HD float largest_magnitude(const float* x) {
  VecI largest = VecI::zero();  // magnitudes compare as integers; NaN compares above infinity
  for (int i = 0; i < kBlock; i += VecF::kLanes) {
    largest = max(largest, as_int(VecF::load(x + i)) & VecI::splat(0x7fffffff));
  }
  const int32_t bits = reduce_max(largest);
  float amax;
  __builtin_memcpy(&amax, &bits, sizeof(amax));
  return amax;
}

LOCI_HD void quantize_block(const float* x, float inverse, int8_t* codes, int32_t pairs[2][2]) {
  VecI code[kBlock / VecF::kLanes];
  for (int i = 0; i < kBlock / VecF::kLanes; ++i) {
    const VecI rounded = round_to_int(VecF::load(x + i * VecF::kLanes) * VecF::splat(inverse));
    code[i] = max(VecI::splat(-127), min(VecI::splat(127), rounded));
    code[i].store_i8(codes + i * VecF::kLanes);
  }
  pair_sums(code, pairs);
}

// inverse = 127 / amax; returns d = amax / 127; both 0 for a block that counts as zero. An infinity or NaN in the block
// makes d non-finite, and so every output of the token.
LOCI_HD VecF block_scales(BlockFields& fields, int t) {
  const VecF amax = VecF::load(fields.amax + t), most = VecF::splat(127.0f);
  const Mask is_zero = amax < VecF::splat(kSmallestAmax);
  select(is_zero, VecF::zero(), most / amax).store(fields.inverse + t);
  return select(is_zero, VecF::zero(), amax / most);
}

// Two 16-bit numbers, `low` first in memory.
LOCI_HD VecI packed(VecI low, VecI high) { return (low & VecI::splat(0xffff)) | shl<16>(high); }

// Block after block: codes[tile_tokens][32], then the fields of all tokens (panel_format.h).
void quantize_tile(const float* x, int64_t x_stride, int n_tokens, int tile_tokens, int64_t block_begin,
                   int64_t block_end, uint8_t* tile) noexcept {
  for (int64_t block = block_begin; block < block_end; ++block) {
    uint8_t* base = tile + block * kTileBytes * tile_tokens;
    int8_t* codes = reinterpret_cast<int8_t*>(base);
    if (n_tokens < tile_tokens) __builtin_memset(base, 0, static_cast<size_t>(tile_tokens) * kBlock);
    const float* first = x + block * kBlock;
    BlockFields fields;
    for (int t = 0; t < n_tokens; ++t) fields.amax[t] = largest_magnitude(first + t * x_stride);
    VecF d[kMaxTileTokens / VecF::kLanes];
    for (int t = 0; t < tile_tokens; t += VecF::kLanes) d[t / VecF::kLanes] = block_scales(fields, t);
    for (int t = 0; t < n_tokens; ++t) {
      int32_t pairs[2][2];
      quantize_block(first + t * x_stride, fields.inverse[t], codes + t * kBlock, pairs);
      for (int i = 0; i < 4; ++i) fields.pairs[i / 2][i % 2][t] = pairs[i / 2][i % 2];
    }
    for (int t = 0; t < tile_tokens; t += VecF::kLanes) {
      uint8_t* place = base + tile_tokens * kBlock + 4 * t;
      const auto put = [&](VecF values) {
        values.store_first(reinterpret_cast<float*>(place), tile_tokens - t);
        place += 4 * tile_tokens;
      };
      const auto load = [&](int half, int pair) { return VecI::load(fields.pairs[half][pair] + t); };
      const VecI a0 = load(0, 0), b0 = load(0, 1), a1 = load(1, 0), b1 = load(1, 1), none = VecI::zero();
      const VecI sum0 = a0 + b0, sum1 = a1 + b1;
      put(d[t / VecF::kLanes]);
      put(d[t / VecF::kLanes] * to_float(sum0 + sum1));
      put(as_float(none - shl<7>(sum0 + sum1)));
      put(as_float(none - shl<7>(sum0)));
      put(as_float(none - shl<7>(sum1)));
      put(as_float(packed(none - a0 - a1, none - b0 - b1)));
      put(as_float(packed(none - a0, none - b0)));
      put(as_float(packed(none - a1, none - b1)));
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
