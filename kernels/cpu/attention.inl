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
constexpr int kExpandBlocks = VecF::kLanes == 8 ? 8 : 3;

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

// Fetches the line at `base + offset` to L2.
LOCI_HD void prefetch(const std::byte* base, int64_t offset) { __builtin_prefetch(base + offset, 0, 2); }

// scores[r][0 .. 16 N) of N tiles. q [head_dim][R]. Meanwhile fetches the V tiles of the same keys.
template <typename Format, int R, int N>
void score_tiles(const std::byte* const* k_tiles, const std::byte* const* v_tiles, int v_code_bytes, const float* q,
                 int head_dim, float* scores) noexcept {
  using Code = typename Format::Code;
  const Code* k[N];
  VecF acc[R][N][kTileVecs];
#pragma GCC unroll 64
  for (int n = 0; n < N; ++n) {
    k[n] = reinterpret_cast<const Code*>(k_tiles[n]);
#pragma GCC unroll 64
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
      for (int v = 0; v < kTileVecs; ++v) acc[r][n][v] = VecF::zero();
    }
  }
  const bool wide_v = v_code_bytes > 2;
  for (int d = 0; d < head_dim; d += 2) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 64
      for (int n = 0; n < N; ++n) {
        VecF x[kTileVecs];
#pragma GCC unroll 64
        for (int v = 0; v < kTileVecs; ++v) x[v] = load_codes<Format>(k[n] + (d + i) * kTile + v * VecF::kLanes);
        if (i == 0 || wide_v) prefetch(v_tiles[n], int64_t{d + i} * kTile * v_code_bytes);
#pragma GCC unroll 64
        for (int r = 0; r < R; ++r) {
          const VecF factor = VecF::splat(q[(d + i) * R + r]);
#pragma GCC unroll 64
          for (int v = 0; v < kTileVecs; ++v) acc[r][n][v] = fma(x[v], factor, acc[r][n][v]);
        }
      }
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
  int code_bytes;
};

// acc[r][channel .. channel + N * kLanes) += sum over keys [begin, end) of p[r][key] * v[key].
// p rows are kSplitTokens apart, acc rows acc_stride.
template <typename Format, int R, int N>
void value_channels(const std::byte* const* v_tiles, const float* p, KeyRange keys, int head_dim, int channel,
                    float* acc_rows, int acc_stride, NextTiles next) noexcept {
  using Code = typename Format::Code;
  VecF acc[R][N];
#pragma GCC unroll 64
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 64
    for (int n = 0; n < N; ++n) acc[r][n] = VecF::load(acc_rows + r * acc_stride + channel + n * VecF::kLanes);
  }
  const bool wide_k = next.code_bytes > 2;
  for (int tile = keys.begin / kTile; tile * kTile < keys.end; ++tile) {
    const int begin = keys.begin > tile * kTile ? keys.begin - tile * kTile : 0;
    const int end = keys.end - tile * kTile < kTile ? keys.end - tile * kTile : kTile;
    const std::byte* v_tile = v_tiles[tile];
    const std::byte* fetched = tile < next.n_tiles && next.tiles[tile] != nullptr ? next.tiles[tile] : v_tile;
    const float* weights = p + tile * kTile;
    for (int t = begin; t < end; ++t) {
      const Code* v = reinterpret_cast<const Code*>(v_tile) + t * head_dim + channel;
      const int64_t offset = int64_t{t * head_dim + channel} * next.code_bytes;
      VecF x[N];
#pragma GCC unroll 64
      for (int n = 0; n < N; ++n) x[n] = load_codes<Format>(v + n * VecF::kLanes);
#pragma GCC unroll 64
      for (int n = 0; n < N; ++n) {
        if ((n * VecF::kLanes) % 32 == 0 || (wide_k && (n * VecF::kLanes) % 16 == 0)) {
          prefetch(fetched, offset + n * VecF::kLanes * next.code_bytes);
        }
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
        const auto* v = reinterpret_cast<const typename Format::Code*>(v_tiles[j / kTile]);
        sum =
            __builtin_fmaf(Format::decode(v[v_tile_index(j % kTile, channel, head_dim)]), p[r * kSplitTokens + j], sum);
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
  const NextTiles nothing = {nullptr, 0, 4};
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
void score_block(const AttendSplit& args, const float* q, BlockTiles tiles, int v_code_bytes, float* scores) noexcept {
  constexpr int kTiles = Blocking<KFormat, R>::score_tiles();
  int tile = tiles.begin;
  for (; tile + kTiles <= tiles.end; tile += kTiles) {
    score_tiles<KFormat, R, kTiles>(args.k_tiles + tile, args.v_tiles + tile, v_code_bytes, q, args.head_dim,
                                    scores + tile * kTile);
  }
  if constexpr (kTiles > 4) {
    for (; tile + 4 <= tiles.end; tile += 4) {
      score_tiles<KFormat, R, 4>(args.k_tiles + tile, args.v_tiles + tile, v_code_bytes, q, args.head_dim,
                                 scores + tile * kTile);
    }
  }
  for (; tile < tiles.end; ++tile) {
    score_tiles<KFormat, R, 1>(args.k_tiles + tile, args.v_tiles + tile, v_code_bytes, q, args.head_dim,
                               scores + tile * kTile);
  }
}

LOCI_HD int code_bytes(KvFormat format) {
  int bytes = 0;
  visit_kv_format(format, [&](auto tag) { bytes = sizeof(typename decltype(tag)::Code); });
  return bytes;
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
  const int v_bytes = code_bytes(args.v_format);
  visit_kv_format(args.k_format,
                  [&](auto format) { score_block<decltype(format), R>(args, q, tiles, v_bytes, scores); });
  for (int r = 0; r < R; ++r) {
    float* part = parts + r * stride;
    for (int i = 0; i < stride; i += VecF::kLanes) VecF::zero().store(part + i);
    part[SoftmaxStateLayout::kRowMax] = -__builtin_inff();
    if (keys[r].empty()) continue;
    part[SoftmaxStateLayout::kRowMax] =
        softmax_row(scores + r * kSplitTokens, keys[r], args.softcap, part + SoftmaxStateLayout::kRowSum);
  }
  const NextTiles next = {args.next_k_tiles, prefetch_next ? args.next_n_tiles : 0, args.next_k_code_bytes};
  visit_kv_format(args.v_format, [&](auto format) {
    value_block<decltype(format), R>(args.v_tiles, scores, keys, args.head_dim, parts + SoftmaxStateLayout::kAcc,
                                     stride, next);
  });
  for (int r = 0; r < R; ++r) {
    if (!keys[r].empty()) merge_state(states + r * stride, parts + r * stride, stride - SoftmaxStateLayout::kRowSum);
  }
}

// The tiles of a split as f32, in `out`, with pointers to them in `tiles`. Fetches the tiles of `next` meanwhile.
template <typename Format>
void expand_tiles(const std::byte* const* source, BlockTiles range, int head_dim, const std::byte* const* next,
                  int next_code_bytes, float* out, const std::byte** tiles) noexcept {
  const int n = kTile * head_dim;
  for (int tile = range.begin; tile < range.end; ++tile) {
    const auto* codes = reinterpret_cast<const typename Format::Code*>(source[tile]);
    float* values = out + int64_t{tile} * n;
    for (int i = 0; i < n; i += kTile) {
      if (next != nullptr) prefetch(next[tile], int64_t{i} * next_code_bytes);
      for (int v = 0; v < kTileVecs; ++v) {
        load_codes<Format>(codes + i + v * VecF::kLanes).store(values + i + v * VecF::kLanes);
      }
    }
    tiles[tile] = reinterpret_cast<const std::byte*>(values);
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
  split.next_k_code_bytes = code_bytes(args.k_format);
  const std::byte* tiles[2][kSplitTokens / kTile];
  if (args.expanded != nullptr && blocks.n_blocks >= kExpandBlocks) {
    const BlockTiles range = block_tiles(args.keys, args.n_rows);
    const auto expand = [&](KvFormat& format, const std::byte* const*& side, int index, const std::byte* const* next) {
      if (format == KvFormat::kF32) return;
      visit_kv_format(format, [&](auto tag) {
        expand_tiles<decltype(tag)>(side, range, args.head_dim, next, code_bytes(args.v_format),
                                    args.expanded + int64_t{index} * kSplitTokens * args.head_dim, tiles[index]);
      });
      format = KvFormat::kF32;
      side = tiles[index];
    };
    expand(split.k_format, split.k_tiles, 0, args.v_tiles);
    expand(split.v_format, split.v_tiles, 1, nullptr);
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
