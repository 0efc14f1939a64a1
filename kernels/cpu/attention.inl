// Attention of a block of rows against one split of 256 keys. Pasted into the ISA units. One arithmetic serves decode,
// prefill and verification: rows are (query token, head of the group), every row's result depends on its own query and
// visible keys alone. Order of summation (the contract is docs/attention.md):
//   score   one fma chain over channels ascending, a lane per key
//   p       2^(score - max of the split); row_sum in 16 lanes (position mod 16), tiles ascending
//   acc     one fma chain over the visible keys ascending, a lane per channel, from 0 in every split
//   merge   left fold over splits

constexpr int kTile = kKvTileTokens;
constexpr int kTileVecs = kTile / VecF::kLanes;
constexpr bool kWideFile = VecF::kLanes >= 16;  // 32 vector registers instead of 16

// Rows per block, the most that the loops below keep in registers.
constexpr int kAttentionRows = kWideFile ? 8 : VecF::kLanes > 1 ? 6 : 1;

// From this many row blocks on, a split's codes are converted to f32 once, instead of in every block.
LOCI_HD constexpr int expand_blocks(KvFormat format) {
  if (format == KvFormat::kQ8_0 || format == KvFormat::kQ4_0) return 3;
  return VecF::kLanes == 8 ? 8 : 3;
}

// Tiles per pass of the score loop and vectors of channels per pass of the value loop, for R rows: as many
// accumulators as fit beside the operands, chosen by measurement (attention_bench).
template <typename Format, int R>
struct Blocking {
  static constexpr int score_tiles() {
    if (VecF::kLanes == 1) return 1;
    if (!kWideFile) return R == 1 ? 4 : R <= 3 ? 2 : 1;
    if (R == 8 && Format::kFormat == KvFormat::kF32) return 2;
    return R <= 2 ? 8 : R <= 6 ? 4 : 3;
  }
  static constexpr int value_vecs() {
    if (VecF::kLanes == 1) return 4;
    if (!kWideFile) return R == 1 ? 8 : R == 2 ? 4 : 2;
    return R == 1 ? 8 : R <= 7 ? 4 : 2;
  }
};

template <int kNumber>
struct Constant {
  static constexpr int kValue = kNumber;
};

template <typename Format>
LOCI_HD VecF load_codes(const typename Format::Code* p) {
  if constexpr (Format::kFormat == KvFormat::kF32) {
    return VecF::load(p);
  } else if constexpr (Format::kFormat == KvFormat::kF16) {
    return VecF::load_f16(p);
  } else {
    static_assert(Format::kFormat == KvFormat::kBF16);
    return VecF::load_bf16(p);
  }
}

// The scales of a tile for one block of channels, as f32. Nothing for the plain formats.
template <typename Format>
struct TileScales {
  float tokens[Format::kBlock > 1 ? kTile : 1];
  LOCI_HD void load(const std::byte* tile, int channel, int head_dim) {
    if constexpr (Format::kBlock > 1) {
      const auto* halves = reinterpret_cast<const uint16_t*>(tile + Format::scale_offset(channel, head_dim));
      for (int v = 0; v < kTileVecs; ++v) {
        VecF::load_f16(halves + v * VecF::kLanes).store(tokens + v * VecF::kLanes);
      }
    }
  }
};

// Channels that the loops below take before they load new scales.
template <typename Format>
LOCI_HD int channel_step(int head_dim) {
  return Format::kBlock > 1 ? Format::kBlock : head_dim;
}

// Vector v of the 16 keys' values of channel d + kOdd, d even.
template <typename Format, int kOdd>
LOCI_HD VecF k_values(const std::byte* tile, int d, int v, const TileScales<Format>& scales) {
  if constexpr (Format::kBlock == 1) {
    return load_codes<Format>(reinterpret_cast<const typename Format::Code*>(tile) + (d + kOdd) * kTile +
                              v * VecF::kLanes);
  } else {
    const auto* codes = reinterpret_cast<const uint8_t*>(tile);
    VecI code;
    if constexpr (Format::kFormat == KvFormat::kQ8_0) {
      code = VecI::load_i8(reinterpret_cast<const int8_t*>(codes) + (d + kOdd) * kTile + v * VecF::kLanes);
    } else {
      static_assert(Format::kFormat == KvFormat::kQ4_0);
      const VecI pair = VecI::load_u8(codes + d / 2 * kTile + v * VecF::kLanes);
      code = (kOdd ? shr<4>(pair) : pair & VecI::splat(15)) - VecI::splat(8);
    }
    return to_float(code) * VecF::load(scales.tokens + v * VecF::kLanes);
  }
}

// kLanes values of token t from `channel` + `offset` on. REQUIRES: channel a multiple of the vectors' common step, so
// that for steps of 16 channels and more `offset` alone tells the half of a byte.
template <typename Format, bool kWholeGroups>
LOCI_HD VecF v_values(const std::byte* tile, int t, int channel, int offset, int head_dim,
                      const TileScales<Format>& scales) {
  if constexpr (Format::kBlock == 1) {
    return load_codes<Format>(reinterpret_cast<const typename Format::Code*>(tile) + t * head_dim + channel + offset);
  } else {
    const auto* codes = reinterpret_cast<const uint8_t*>(tile);
    VecI code;
    if constexpr (Format::kFormat == KvFormat::kQ8_0) {
      code = VecI::load_i8(reinterpret_cast<const int8_t*>(codes) + t * head_dim + channel + offset);
    } else {
      const int within = kWholeGroups ? offset : channel + offset;
      const int before = kWholeGroups ? channel : 0;
      code = VecI::load_u4(codes + (t * head_dim + before) / 2 + within / 16 * 8, within % 16 / VecF::kLanes) -
             VecI::splat(8);
    }
    return to_float(code) * VecF::splat(scales.tokens[t]);
  }
}

// Fetches the line at `base + offset` to L2.
LOCI_HD void prefetch(const std::byte* base, int64_t offset) { __builtin_prefetch(base + offset, 0, 2); }

// scores[r][0 .. 16 N) of N tiles. q [head_dim][R]. Meanwhile fetches the V tiles of the same keys, v_step bytes per
// channel.
template <typename Format, int R, int N>
void score_tiles(const std::byte* const* k_tiles, const std::byte* const* v_tiles, int v_step, const float* q,
                 int head_dim, float* scores) noexcept {
  VecF acc[R][N][kTileVecs];
#pragma GCC unroll 64
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 64
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
      for (int v = 0; v < kTileVecs; ++v) acc[r][n][v] = VecF::zero();
    }
  }
  const bool wide_v = v_step > 32;
  const int step = channel_step<Format>(head_dim);
  for (int block = 0; block < head_dim; block += step) {
    TileScales<Format> scales[N];
    for (int n = 0; n < N; ++n) scales[n].load(k_tiles[n], block, head_dim);
    for (int d = block; d < block + step; d += 2) {
      const auto channel = [&](auto odd) __attribute__((always_inline)) {
        constexpr int i = decltype(odd)::kValue;
#pragma GCC unroll 64
        for (int n = 0; n < N; ++n) {
          VecF x[kTileVecs];
#pragma GCC unroll 64
          for (int v = 0; v < kTileVecs; ++v) x[v] = k_values<Format, i>(k_tiles[n], d, v, scales[n]);
          if (i == 0 || wide_v) prefetch(v_tiles[n], int64_t{d + i} * v_step);
#pragma GCC unroll 64
          for (int r = 0; r < R; ++r) {
            const VecF factor = VecF::splat(q[(d + i) * R + r]);
#pragma GCC unroll 64
            for (int v = 0; v < kTileVecs; ++v) acc[r][n][v] = fma(x[v], factor, acc[r][n][v]);
          }
        }
      };
      channel(Constant<0>{});
      channel(Constant<1>{});
    }
  }
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 64
      for (int v = 0; v < kTileVecs; ++v) {
        acc[r][n][v].store(scores + r * kSplitTokens + n * kTile + v * VecF::kLanes);
      }
    }
  }
}

// One row's scores -> p in place, over the tiles that hold `keys`; p of hidden keys there is 0. Returns the maximum.
float softmax_row(float* scores, KeyRange keys, float softcap, float* row_sum) noexcept {
  const int begin = keys.begin / kTile * kTile;
  const int end = (keys.end + kTile - 1) / kTile * kTile;
  if (softcap > 0) {
    const VecF factor = VecF::splat(softcap * kLog2E);
    for (int j = begin; j < end; j += VecF::kLanes) (vec_tanh(VecF::load(scores + j)) * factor).store(scores + j);
  }
  for (int j = begin; j < keys.begin; ++j) scores[j] = -__builtin_inff();
  for (int j = keys.end; j < end; ++j) scores[j] = -__builtin_inff();

  VecF max_vec = VecF::splat(-__builtin_inff());
  for (int j = begin; j < end; j += VecF::kLanes) max_vec = max(VecF::load(scores + j), max_vec);
  float lanes[VecF::kLanes];
  max_vec.store(lanes);
  float row_max = lanes[0];
  for (int i = 1; i < VecF::kLanes; ++i) row_max = lanes[i] > row_max ? lanes[i] : row_max;

  const VecF offset = VecF::splat(row_max);
  VecF sum[kTileVecs];
  for (int v = 0; v < kTileVecs; ++v) sum[v] = VecF::zero();
  for (int j = begin; j < end; j += kTile) {
    for (int v = 0; v < kTileVecs; ++v) {
      const VecF p = vec_exp2(VecF::load(scores + j + v * VecF::kLanes) - offset);
      p.store(scores + j + v * VecF::kLanes);
      sum[v] = sum[v] + p;
    }
  }
  for (int v = 0; v < kTileVecs; ++v) sum[v].store(row_sum + v * VecF::kLanes);
  return row_max;
}

// What value_channels fetches to L2 while it runs: the K tiles of the caller's next unit.
struct NextTiles {
  const std::byte* const* tiles;
  int n_tiles;
  int step;  // bytes per channel of a tile
};

// acc[r][channel .. channel + N * kLanes) += sum over keys [begin, end) of p[r][key] * v[key].
// p rows are kSplitTokens apart, acc rows acc_stride.
template <typename Format, int R, int N>
void value_channels(const std::byte* const* v_tiles, const float* p, KeyRange keys, int head_dim, int channel,
                    float* acc_rows, int acc_stride, NextTiles next) noexcept {
  VecF acc[R][N];
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
    for (int n = 0; n < N; ++n) acc[r][n] = VecF::load(acc_rows + r * acc_stride + channel + n * VecF::kLanes);
  }
  // Of a K tile, `step` bytes belong to each channel: what the pass fetches in all, evenly over its tokens.
  const bool wide_k = next.step > 32;
  constexpr int kLines = N * VecF::kLanes < 32 ? 1 : N * VecF::kLanes / 32;
  const int64_t token_step = int64_t{head_dim} / kTile * next.step;
  constexpr bool kWholeGroups = N * VecF::kLanes % 16 == 0;
  constexpr int kScaleBlocks = Format::kBlock > 1 ? (N * VecF::kLanes + Format::kBlock - 1) / Format::kBlock : 1;
  for (int tile = keys.begin / kTile; tile * kTile < keys.end; ++tile) {
    const int begin = keys.begin > tile * kTile ? keys.begin - tile * kTile : 0;
    const int end = keys.end - tile * kTile < kTile ? keys.end - tile * kTile : kTile;
    const std::byte* v_tile = v_tiles[tile];
    const std::byte* fetched = tile < next.n_tiles && next.tiles[tile] != nullptr ? next.tiles[tile] : v_tile;
    const float* weights = p + tile * kTile;
    TileScales<Format> scales[kScaleBlocks];
    for (int b = 0; b < kScaleBlocks; ++b) scales[b].load(v_tile, channel + b * Format::kBlock, head_dim);
    const std::byte* line = fetched + begin * token_step + channel / kTile * int64_t{next.step};
    for (int t = begin; t < end; ++t, line += token_step) {
      VecF x[N];
#pragma GCC unroll 64
      for (int n = 0; n < N; ++n) {
        constexpr int kVecsPerScale = Format::kBlock > 1 ? Format::kBlock / VecF::kLanes : N;
        x[n] =
            v_values<Format, kWholeGroups>(v_tile, t, channel, n * VecF::kLanes, head_dim, scales[n / kVecsPerScale]);
      }
#pragma GCC unroll 64
      for (int i = 0; i < kLines; ++i) prefetch(line, 64 * i);
      if (wide_k) {
#pragma GCC unroll 64
        for (int i = kLines; i < 2 * kLines; ++i) prefetch(line, 64 * i);
      }
#pragma GCC unroll 64
      for (int r = 0; r < R; ++r) {
        const VecF weight = VecF::splat(weights[r * kSplitTokens + t]);
#pragma GCC unroll 64
        for (int n = 0; n < N; ++n) acc[r][n] = fma(x[n], weight, acc[r][n]);
      }
    }
  }
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
    for (int n = 0; n < N; ++n) acc[r][n].store(acc_rows + r * acc_stride + channel + n * VecF::kLanes);
  }
}

// All channels of R rows that see the same keys.
template <typename Format, int R>
void value_rows(const std::byte* const* v_tiles, const float* p, KeyRange keys, int head_dim, float* acc,
                int acc_stride, NextTiles next) noexcept {
  constexpr int kVecs = Blocking<Format, R>::value_vecs();
  constexpr int kLanes = VecF::kLanes;
  if (keys.empty()) return;
  int channel = 0;
  for (; channel + kVecs * kLanes <= head_dim; channel += kVecs * kLanes) {
    value_channels<Format, R, kVecs>(v_tiles, p, keys, head_dim, channel, acc, acc_stride, next);
  }
  if constexpr (kVecs > 4) {
    for (; channel + 4 * kLanes <= head_dim; channel += 4 * kLanes) {
      value_channels<Format, R, 4>(v_tiles, p, keys, head_dim, channel, acc, acc_stride, next);
    }
  }
  if constexpr (kVecs > 2) {
    for (; channel + 2 * kLanes <= head_dim; channel += 2 * kLanes) {
      value_channels<Format, R, 2>(v_tiles, p, keys, head_dim, channel, acc, acc_stride, next);
    }
  }
  for (; channel + kLanes <= head_dim; channel += kLanes) {
    value_channels<Format, R, 1>(v_tiles, p, keys, head_dim, channel, acc, acc_stride, next);
  }
  // Channels that do not fill a vector.
  for (; channel < head_dim; ++channel) {
    for (int r = 0; r < R; ++r) {
      float sum = acc[r * acc_stride + channel];
      for (int j = keys.begin; j < keys.end; ++j) {
        const float value = Format::read_v(v_tiles[j / kTile], j % kTile, channel, head_dim);
        sum = __builtin_fmaf(value, p[r * kSplitTokens + j], sum);
      }
      acc[r * acc_stride + channel] = sum;
    }
  }
}

// Values of R rows whose visible keys may differ (neighbouring query tokens). Keys that not all rows see are added
// row by row, so that a hidden key is never touched: 0 * NaN would spoil the sum.
template <typename Format, int R>
void value_block(const std::byte* const* v_tiles, const float* p, const KeyRange* keys, int head_dim, float* acc,
                 int acc_stride, NextTiles next) noexcept {
  KeyRange common = keys[0];
  for (int r = 1; r < R; ++r) {
    common.begin = keys[r].begin > common.begin ? keys[r].begin : common.begin;
    common.end = keys[r].end < common.end ? keys[r].end : common.end;
  }
  if (common.empty()) {
    for (int r = 0; r < R; ++r) {
      value_rows<Format, 1>(v_tiles, p + r * kSplitTokens, keys[r], head_dim, acc + r * acc_stride, acc_stride, next);
    }
    return;
  }
  const NextTiles nothing = {nullptr, 0, 0};
  for (int r = 0; r < R; ++r) {
    value_rows<Format, 1>(v_tiles, p + r * kSplitTokens, {keys[r].begin, common.begin}, head_dim, acc + r * acc_stride,
                          acc_stride, nothing);
  }
  value_rows<Format, R>(v_tiles, p, common, head_dim, acc, acc_stride, next);
  for (int r = 0; r < R; ++r) {
    value_rows<Format, 1>(v_tiles, p + r * kSplitTokens, {common.end, keys[r].end}, head_dim, acc + r * acc_stride,
                          acc_stride, nothing);
  }
}

// state = merge(state, part).  n = 16 + padded head_dim floats of row_sum and acc, which lie side by side.
void merge_state(float* state, const float* part, int n) noexcept {
  constexpr int kMax = SoftmaxStateLayout::kRowMax;
  constexpr int kSum = SoftmaxStateLayout::kRowSum;
  if (state[kMax] == -__builtin_inff()) {
    state[kMax] = part[kMax];
    for (int i = 0; i < n; i += VecF::kLanes) VecF::load(part + kSum + i).store(state + kSum + i);
    return;
  }
  if (part[kMax] == -__builtin_inff()) return;
  const MergeWeights weights = merge_weights(state[kMax], part[kMax], [](float x) { return exp2_one(x); });
  state[kMax] = weights.row_max;
  const VecF a = VecF::splat(weights.a), b = VecF::splat(weights.b);
  for (int i = 0; i < n; i += VecF::kLanes) {
    fma(VecF::load(part + kSum + i), b, VecF::load(state + kSum + i) * a).store(state + kSum + i);
  }
}

// The tiles of the split that hold keys of any of the rows.
struct BlockTiles {
  int begin, end;
};
LOCI_HD BlockTiles block_tiles(const KeyRange* keys, int n_rows) {
  int begin = kSplitTokens, end = 0;
  for (int r = 0; r < n_rows; ++r) {
    if (keys[r].empty()) continue;
    begin = keys[r].begin < begin ? keys[r].begin : begin;
    end = keys[r].end > end ? keys[r].end : end;
  }
  return {begin / kTile, (end + kTile - 1) / kTile};
}

template <typename KFormat, int R>
void score_block(const AttendSplit& args, const float* q, BlockTiles tiles, int v_step, float* scores) noexcept {
  constexpr int kTiles = Blocking<KFormat, R>::score_tiles();
  int tile = tiles.begin;
  for (; tile + kTiles <= tiles.end; tile += kTiles) {
    score_tiles<KFormat, R, kTiles>(args.k_tiles + tile, args.v_tiles + tile, v_step, q, args.head_dim,
                                    scores + tile * kTile);
  }
  if constexpr (kTiles > 4) {
    for (; tile + 4 <= tiles.end; tile += 4) {
      score_tiles<KFormat, R, 4>(args.k_tiles + tile, args.v_tiles + tile, v_step, q, args.head_dim,
                                 scores + tile * kTile);
    }
  }
  for (; tile < tiles.end; ++tile) {
    score_tiles<KFormat, R, 1>(args.k_tiles + tile, args.v_tiles + tile, v_step, q, args.head_dim,
                               scores + tile * kTile);
  }
}

// Bytes of a tile per channel: how far a pass over the channels fetches ahead in each step.
LOCI_HD int tile_step(KvFormat format, int head_dim) {
  int64_t bytes = 0;
  visit_kv_format(format, [&](auto tag) { bytes = decltype(tag)::tile_bytes(head_dim); });
  return static_cast<int>(bytes / head_dim);
}

// One block of R rows: scores, softmax, values, merge into the rows' states.
template <int R>
void attend_block(const AttendSplit& args, const float* q, const KeyRange* keys, float* states,
                  bool prefetch_next) noexcept {
  const BlockTiles tiles = block_tiles(keys, R);
  if (tiles.begin >= tiles.end) return;
  const int stride = SoftmaxStateLayout::stride(args.head_dim);
  float* scores = args.scratch;              // [R][kSplitTokens]
  float* parts = scores + R * kSplitTokens;  // [R][stride]
  const int v_step = tile_step(args.v_format, args.head_dim);
  visit_kv_format(args.k_format,
                  [&](auto format) { score_block<decltype(format), R>(args, q, tiles, v_step, scores); });
  for (int r = 0; r < R; ++r) {
    float* part = parts + r * stride;
    for (int i = 0; i < stride; i += VecF::kLanes) VecF::zero().store(part + i);
    part[SoftmaxStateLayout::kRowMax] = -__builtin_inff();
    if (keys[r].empty()) continue;
    part[SoftmaxStateLayout::kRowMax] =
        softmax_row(scores + r * kSplitTokens, keys[r], args.softcap, part + SoftmaxStateLayout::kRowSum);
  }
  const NextTiles next = {args.next_k_tiles, prefetch_next ? args.next_n_tiles : 0, args.next_k_step};
  visit_kv_format(args.v_format, [&](auto format) {
    value_block<decltype(format), R>(args.v_tiles, scores, keys, args.head_dim, parts + SoftmaxStateLayout::kAcc,
                                     stride, next);
  });
  for (int r = 0; r < R; ++r) {
    if (!keys[r].empty()) merge_state(states + r * stride, parts + r * stride, stride - SoftmaxStateLayout::kRowSum);
  }
}

// The K (kKeys) or V tiles of a split as f32, in `out`, with pointers to them in `tiles`. Fetches the tiles of `next`
// meanwhile, next_step bytes per channel.
template <typename Format, bool kKeys>
void expand_tiles(const std::byte* const* source, BlockTiles range, int head_dim, const std::byte* const* next,
                  int next_step, float* out, const std::byte** tiles) noexcept {
  constexpr int kLanes = VecF::kLanes;
  for (int tile = range.begin; tile < range.end; ++tile) {
    float* values = out + int64_t{tile} * kTile * head_dim;
    tiles[tile] = reinterpret_cast<const std::byte*>(values);
    if constexpr (Format::kBlock == 1) {
      const auto* codes = reinterpret_cast<const typename Format::Code*>(source[tile]);
      for (int i = 0; i < kTile * head_dim; i += kTile) {
        if (next != nullptr) prefetch(next[tile], int64_t{i} / kTile * next_step);
        for (int v = 0; v < kTileVecs; ++v) load_codes<Format>(codes + i + v * kLanes).store(values + i + v * kLanes);
      }
      continue;
    }
    for (int block = 0; block < head_dim; block += channel_step<Format>(head_dim)) {
      TileScales<Format> scales;
      scales.load(source[tile], block, head_dim);
      if constexpr (kKeys) {
        for (int d = block; d < block + Format::kBlock; d += 2) {
          if (next != nullptr) prefetch(next[tile], int64_t{d} * next_step);
          if (next != nullptr && next_step > 32) prefetch(next[tile], int64_t{d + 1} * next_step);
          float* to = values + d * kTile;
          for (int v = 0; v < kTileVecs; ++v) {
            k_values<Format, 0>(source[tile], d, v, scales).store(to + v * kLanes);
            k_values<Format, 1>(source[tile], d, v, scales).store(to + kTile + v * kLanes);
          }
        }
      } else {
        for (int t = 0; t < kTile; ++t) {
#pragma GCC unroll 64
          for (int c = 0; c < KvBlock::kChannels; c += kLanes) {
            v_values<Format, true>(source[tile], t, block, c, head_dim, scales)
                .store(values + t * head_dim + block + c);
          }
        }
      }
    }
  }
}

// All row blocks, one after the other.
void attend_blocks(const AttendSplit& args, RowBlocks blocks) noexcept {
  const int stride = SoftmaxStateLayout::stride(args.head_dim);
  int row = 0;
  for (int block = 0; block < blocks.n_blocks; ++block) {
    const int rows = blocks.rows(block);
    const float* q = args.q + int64_t{row} * args.head_dim;
    const KeyRange* keys = args.keys + row;
    float* states = args.states + int64_t{row} * stride;
    const bool first = block == 0;
    switch (rows) {
#define LOCI_ATTEND_CASE(R)                                                           \
  case R:                                                                             \
    if constexpr (R <= kAttentionRows) attend_block<R>(args, q, keys, states, first); \
    break;
      LOCI_ATTEND_CASE(1)
      LOCI_ATTEND_CASE(2)
      LOCI_ATTEND_CASE(3)
      LOCI_ATTEND_CASE(4)
      LOCI_ATTEND_CASE(5)
      LOCI_ATTEND_CASE(6)
      LOCI_ATTEND_CASE(7)
      LOCI_ATTEND_CASE(8)
#undef LOCI_ATTEND_CASE
    }
    row += rows;
  }
}

// The kernel: all rows against the split, folded into their states.
void attend_split(const AttendSplit& args) noexcept {
  const RowBlocks blocks = attention_row_blocks(args.n_rows, kAttentionRows);
  AttendSplit split = args;
  split.next_k_step = tile_step(args.k_format, args.head_dim);
  const std::byte* tiles[2][kSplitTokens / kTile];
  if (args.expanded != nullptr) {
    const BlockTiles range = block_tiles(args.keys, args.n_rows);
    if (args.k_format != KvFormat::kF32 && blocks.n_blocks >= expand_blocks(args.k_format)) {
      visit_kv_format(args.k_format, [&](auto tag) {
        expand_tiles<decltype(tag), true>(args.k_tiles, range, args.head_dim, args.v_tiles,
                                          tile_step(args.v_format, args.head_dim), args.expanded, tiles[0]);
      });
      split.k_format = KvFormat::kF32;
      split.k_tiles = tiles[0];
    }
    if (args.v_format != KvFormat::kF32 && blocks.n_blocks >= expand_blocks(args.v_format)) {
      visit_kv_format(args.v_format, [&](auto tag) {
        expand_tiles<decltype(tag), false>(args.v_tiles, range, args.head_dim, nullptr, 0,
                                           args.expanded + int64_t{kSplitTokens} * args.head_dim, tiles[1]);
      });
      split.v_format = KvFormat::kF32;
      split.v_tiles = tiles[1];
    }
  }
  attend_blocks(split, blocks);
}

// Lays out `n_rows` query rows of a block as [head_dim][n_rows], scaled.
void pack_q(const float* const* rows, int n_rows, int head_dim, float factor, float* out) noexcept {
  for (int r = 0; r < n_rows; ++r) {
    for (int d = 0; d < head_dim; ++d) out[d * n_rows + r] = rows[r][d] * factor;
  }
}

// out = acc / sum of the row's state; `sink` adds one key with that natural-log score and no value.
void finish_row(const float* state, int head_dim, const float* sink, float* out) noexcept {
  float row_max = state[SoftmaxStateLayout::kRowMax];
  float lanes[kTile];
  for (int i = 0; i < kTile; ++i) lanes[i] = state[SoftmaxStateLayout::kRowSum + i];
  for (int half = kTile / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  float row_sum = lanes[0];
  float weight = 1.0f;
  if (sink != nullptr) {
    const MergeWeights weights = merge_weights(row_max, *sink * kLog2E, [](float x) { return exp2_one(x); });
    weight = weights.a;
    row_sum = row_sum * weights.a + weights.b;
  }
  const float* acc = state + SoftmaxStateLayout::kAcc;
  const VecF numerator = VecF::splat(weight);
  const VecF denominator = VecF::splat(row_sum);
  int d = 0;
  for (; d + VecF::kLanes <= head_dim; d += VecF::kLanes) {
    (VecF::load(acc + d) * numerator / denominator).store(out + d);
  }
  for (; d < head_dim; ++d) out[d] = acc[d] * weight / row_sum;
}
