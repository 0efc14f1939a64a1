// CpuBackend: matrix products. Rows of x are cut into tiles of up to 16 tokens; the work is (chunk of tiles) x (panel
// of 16 weight rows), dealt to the threads in contiguous ranges. No cut of K anywhere, so no cut changes a result.
#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/quant.h"

namespace loci::cpu {
namespace {

constexpr int kPanelFloats = kPanelRows * kMaxTileTokens;
// Tokens whose activation tiles stay in L2 while panels pass by.
constexpr int64_t kChunkTokens = 64;
constexpr int64_t kChunkTokensShortRows = 128;
constexpr int64_t kShortRow = 2048;  // elements of K
constexpr int kMaxChunkTiles = kChunkTokensShortRows / kMaxTileTokens;
// Panels that take turns on an activation tile while it lies in L1, and blocks of K that they do so for.
constexpr int kGroupPanels = 4;
constexpr int kGroupBlocks = 8;
static_assert(kGroupBlocks * kBlock == kUnpackElements);
// Up to this many rows a product is bound by reading weights: threads then share bytes, not panels.
constexpr int64_t kMemoryBoundRows = 4;

constexpr size_t aligned64(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The input rows of one call as tiles: `rows` full tiles of 16 and one remainder tile.
class TileSet {
 public:
  TileSet(const float* x, int64_t x_stride, int64_t n_rows, int64_t k, bool int8, bool f32)
      : x_(x), x_stride_(x_stride), n_rows_(n_rows), k_(k), int8_(int8), f32_(f32) {
    n_blocks_ = (k + kBlock - 1) / kBlock;
    int8_stride_ = int8 ? aligned64(static_cast<size_t>(n_blocks_) * kTileBytes * kMaxTileTokens) : 0;
    f32_stride_ = f32 ? aligned64(static_cast<size_t>(k) * sizeof(float) * kMaxTileTokens) : 0;
  }

  int64_t n_tiles() const { return (n_rows_ + kMaxTileTokens - 1) / kMaxTileTokens; }
  int64_t n_blocks() const { return n_blocks_; }
  int tokens(int64_t tile) const {
    return static_cast<int>(std::min<int64_t>(kMaxTileTokens, n_rows_ - tile * kMaxTileTokens));
  }
  size_t bytes() const { return (int8_stride_ + f32_stride_) * static_cast<size_t>(n_tiles()); }
  void place(std::byte* memory) { memory_ = memory; }

  uint8_t* int8_tile(int64_t tile) const {
    return reinterpret_cast<uint8_t*>(memory_) + static_cast<size_t>(tile) * int8_stride_;
  }
  float* f32_tile(int64_t tile) const {
    return reinterpret_cast<float*>(memory_ + static_cast<size_t>(n_tiles()) * int8_stride_ +
                                    static_cast<size_t>(tile) * f32_stride_);
  }

  // This worker's share of (tile, block) pairs.
  void fill(const MatmulKernels& kernels, const ThreadPool::Worker& worker) const {
    auto [begin, end] = worker.part(n_tiles() * n_blocks_);
    while (begin < end) {
      const int64_t tile = begin / n_blocks_, block = begin % n_blocks_;
      const int64_t stop = std::min(n_blocks_, block + end - begin);
      const float* x = x_ + tile * kMaxTileTokens * x_stride_;
      const int n = tokens(tile), size = tile_tokens_for(n);
      if (int8_) kernels.quantize_tile(x, x_stride_, n, size, block, stop, int8_tile(tile));
      if (f32_) {
        kernels.pack_f32_tile(x, x_stride_, n, size, block * kBlock, std::min(k_, stop * kBlock), f32_tile(tile));
      }
      begin += stop - block;
    }
  }

 private:
  const float* x_;
  int64_t x_stride_, n_rows_, k_, n_blocks_;
  bool int8_, f32_;
  size_t int8_stride_, f32_stride_;
  std::byte* memory_ = nullptr;
};

const CpuWeight& cpu_weight(const PackedWeight* weight) {
  LOCI_CHECK(weight != nullptr);
  return static_cast<const CpuWeight&>(*weight);
}

struct PanelRef {
  const CpuWeight* weight;
  int64_t panel;
};

// Computes panels for the tiles of a chunk. One per thread; lives on its stack.
class PanelWorker {
 public:
  PanelWorker(const MatmulKernels& kernels, const TileSet& tiles, bool precise, int64_t prefetch_bytes)
      : kernels_(kernels), tiles_(tiles), precise_(precise), prefetch_bytes_(prefetch_bytes) {}
  ~PanelWorker() {
    if (in_slabs_) kernels_.end_slabs();
  }
  PanelWorker(const PanelWorker&) = delete;
  PanelWorker& operator=(const PanelWorker&) = delete;

  // Up to kGroupPanels panels for tiles [first_tile, last_tile); result(g, tile - first_tile) holds [tokens][16] then.
  void compute(std::span<const PanelRef> group, int64_t first_tile, int64_t last_tile) {
    bool slabs = true;
    int min_tokens = 0, min_tile_tokens = 0;
    for (const PanelRef& ref : group) {
      const PanelType type = ref.weight->panel_type();
      slabs = slabs && int8(*ref.weight);
      min_tokens = std::max(min_tokens, kernels_.slab_min_tokens[type]);
      min_tile_tokens = std::max(min_tile_tokens, kernels_.slab_min_tile_tokens[type]);
    }
    // Tiles that slabs serve come first: only the last tile of all is not full.
    int64_t slab_end = first_tile;
    int slab_tokens = 0;
    for (; slab_end < last_tile && tile_tokens(slab_end) >= min_tile_tokens; ++slab_end) {
      slab_tokens += tile_tokens(slab_end);
    }
    slabs = slabs && slab_tokens >= min_tokens;
    if (slabs) compute_with_slabs(group, first_tile, slab_end);
    for (size_t g = 0; g < group.size(); ++g) {
      const CpuWeight& weight = *group[g].weight;
      const int64_t panel = group[g].panel;
      if (!int8(weight)) {
        compute_f32(g, weight, panel, first_tile, last_tile);
        continue;
      }
      const auto kernel = kernels_.panel_int8[weight.panel_type()];
      for (int64_t tile = slabs ? slab_end : first_tile; tile < last_tile; ++tile) {
        kernel(weight.panel(panel), tiles_.n_blocks(), tiles_.int8_tile(tile), tile_tokens(tile), prefetch_bytes_,
               result(g, tile - first_tile));
      }
    }
  }

  float* result(size_t g, int64_t tile) { return results_[g][tile]; }

 private:
  bool int8(const CpuWeight& weight) const { return weight.is_quantized() && !precise_; }
  int tile_tokens(int64_t tile) const { return tile_tokens_for(tiles_.tokens(tile)); }  // padding included

  // The group's slabs and the tile's slice of K stay in L1.
  void compute_with_slabs(std::span<const PanelRef> group, int64_t first_tile, int64_t last_tile) {
    if (kernels_.begin_slabs != nullptr && !in_slabs_) {
      kernels_.begin_slabs();
      in_slabs_ = true;
    }
    for (size_t g = 0; g < group.size(); ++g) {
      std::memset(results_[g], 0, static_cast<size_t>(last_tile - first_tile) * sizeof(results_[g][0]));
    }
    for (int64_t block = 0; block < tiles_.n_blocks(); block += kGroupBlocks) {
      const int64_t n = std::min<int64_t>(kGroupBlocks, tiles_.n_blocks() - block);
      for (size_t g = 0; g < group.size(); ++g) {
        const CpuWeight& weight = *group[g].weight;
        kernels_.slab_unpack[weight.panel_type()](weight.panel(group[g].panel), block, n, slabs_[g]);
      }
      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
        const int size = tile_tokens(tile);
        const uint8_t* slice = tiles_.int8_tile(tile) + block * kTileBytes * size;
        for (size_t g = 0; g < group.size(); ++g) {
          kernels_.slab_int8[group[g].weight->panel_type()](slabs_[g], n, slice, size, result(g, tile - first_tile));
        }
      }
    }
  }

  void compute_f32(size_t g, const CpuWeight& weight, int64_t panel, int64_t first_tile, int64_t last_tile) {
    std::memset(results_[g], 0, static_cast<size_t>(last_tile - first_tile) * sizeof(results_[g][0]));
    const int64_t k = weight.cols();
    for (int64_t first = 0; first < k; first += kUnpackElements) {
      const int64_t n = std::min<int64_t>(kUnpackElements, k - first);
      const float* weights = unpack(weight, panel, first, n);
      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
        const int size = tile_tokens(tile);
        kernels_.panel_f32(weights, n, tiles_.f32_tile(tile) + first * size, size, result(g, tile - first_tile));
      }
    }
  }

  // Elements [first, first + n) of a panel as f32 [n][16].
  const float* unpack(const CpuWeight& weight, int64_t panel, int64_t first, int64_t n) {
    if (weight.has_panels()) {
      if (weight.panel_type() == kPanelF32) {
        return reinterpret_cast<const float*>(weight.panel(panel)) + first * kPanelRows;
      }
      kernels_.panel_unpack[weight.panel_type()](weight.panel(panel), first, n, unpacked_);
      return unpacked_;
    }
    // Types without panels: from the file, row by row.
    const TensorView& source = weight.source();
    const int64_t offset = row_bytes(source.type, first);
    for (int r = 0; r < kPanelRows; ++r) {
      const int64_t row = panel * kPanelRows + r;
      float values[kUnpackElements];
      if (row < weight.rows()) {
        dequantize_row(source.type, source.row(row) + offset, values, n);
      } else {
        std::memset(values, 0, sizeof(values));
      }
      for (int64_t i = 0; i < n; ++i) unpacked_[i * kPanelRows + r] = values[i];
    }
    return unpacked_;
  }

  const MatmulKernels& kernels_;
  const TileSet& tiles_;
  const bool precise_;
  const int64_t prefetch_bytes_;
  bool in_slabs_ = false;
  alignas(64) float results_[kGroupPanels][kMaxChunkTiles][kPanelFloats];
  alignas(64) uint8_t slabs_[kGroupPanels][kGroupBlocks * kSlabBlockBytes];
  alignas(64) float unpacked_[kUnpackElements * kPanelRows];
};

// A run of panels with the same cost.
struct Segment {
  int64_t n_panels;
  int64_t cost;  // per panel
};

// Calls visit(segment, first panel, last panel, first tile, last tile) for each run of this worker's units, in order.
// Units are ordered by chunk, then segment, then panel; the split is by cost and depends on (index, count) alone.
template <typename Visit>
void for_each_unit(std::span<const Segment> segments, int64_t n_tiles, int64_t chunk_tiles,
                   const ThreadPool::Worker& worker, Visit&& visit) {
  int64_t chunk_cost = 0;
  for (const Segment& segment : segments) chunk_cost += segment.n_panels * segment.cost;
  const int64_t n_chunks = (n_tiles + chunk_tiles - 1) / chunk_tiles;
  const auto [begin, end] = worker.part(n_chunks * chunk_cost);
  int64_t position = 0;  // cost of all units before the segment
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
    const int64_t first_tile = chunk * chunk_tiles, last_tile = std::min(n_tiles, first_tile + chunk_tiles);
    for (size_t s = 0; s < segments.size(); ++s) {
      // A unit belongs to the worker whose range holds its start.
      const auto panels_before = [&](int64_t cost) {
        return std::clamp<int64_t>((cost - position + segments[s].cost - 1) / segments[s].cost, 0,
                                   segments[s].n_panels);
      };
      const int64_t first = begin <= position ? 0 : panels_before(begin);
      const int64_t last = end <= position ? 0 : panels_before(end);
      if (first < last) visit(s, first, last, first_tile, last_tile);
      position += segments[s].n_panels * segments[s].cost;
    }
  }
}

// Relative cost of a panel within one call. Few rows: the bytes that it reads. More: the kind of arithmetic.
int64_t panel_cost(const CpuWeight& weight, int64_t n_rows, bool precise) {
  const int64_t k = weight.cols();
  if (n_rows <= kMemoryBoundRows && weight.has_panels()) return static_cast<int64_t>(weight.panel_stride());
  if (!weight.has_panels()) return 128 * k;  // dequantized element by element
  return weight.is_quantized() && !precise ? 16 * k : 48 * k;
}

int64_t chunk_tiles_for(int64_t k) { return (k <= kShortRow ? kChunkTokensShortRows : kChunkTokens) / kMaxTileTokens; }

// Rows of the panel that starts at `row`.
int valid_rows(const CpuWeight& weight, int64_t row) {
  return static_cast<int>(std::min<int64_t>(kPanelRows, weight.rows() - row));
}

static_assert(kOutputGroup == kPanelRows);

// Multiply-adds below which one thread does the work faster than two can be brought together.
constexpr int64_t kMinWorkPerThread = 1 << 16;

int threads_for_work(int64_t multiply_adds, int n_threads) {
  return static_cast<int>(std::clamp<int64_t>(multiply_adds / kMinWorkPerThread, 1, n_threads));
}

}  // namespace

void CpuBackend::matmul(std::span<const MatmulOut> outs, const float* x, int64_t x_stride, int64_t n_rows) {
  if (outs.empty() || n_rows <= 0) return;
  const int64_t k = cpu_weight(outs[0].weight).cols();
  constexpr size_t kMaxOuts = 16;
  LOCI_CHECK(outs.size() <= kMaxOuts, outs.size());
  Segment segments[kMaxOuts];
  bool int8 = false, f32 = false;
  int64_t n_outputs = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    const CpuWeight& weight = cpu_weight(outs[i].weight);
    const std::span<const int32_t> groups = outs[i].groups;
    LOCI_CHECK(groups.empty() || (groups.front() >= 0 && groups.back() < weight.n_panels()), "no such outputs");
    const int64_t n_panels = groups.empty() ? weight.n_panels() : static_cast<int64_t>(groups.size());
    LOCI_CHECK(weight.cols() == k, "inputs of one call differ: ", k, " and ", weight.cols());
    segments[i] = {n_panels, panel_cost(weight, n_rows, precise_)};
    (weight.is_quantized() && !precise_ ? int8 : f32) = true;
    n_outputs += n_panels * kPanelRows;
  }
  TileSet tiles(x, x_stride, n_rows, k, int8, f32);
  tiles.place(tiles_.reserve(tiles.bytes()));
  const MatmulKernels& kernels = *kernels_.matmul;
  const int n_threads = threads_for_work(n_rows * k * n_outputs, threads_for(n_rows));

  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    tiles.fill(kernels, worker);
    worker.barrier();
    PanelWorker panels(kernels, tiles, precise_, prefetch_bytes_);
    for_each_unit({segments, outs.size()}, tiles.n_tiles(), chunk_tiles_for(k), worker,
                  [&](size_t s, int64_t begin, int64_t end, int64_t first_tile, int64_t last_tile) {
                    const MatmulOut& out = outs[s];
                    const CpuWeight& weight = cpu_weight(out.weight);
                    for (int64_t first = begin; first < end; first += kGroupPanels) {
                      PanelRef group[kGroupPanels];
                      const size_t n = static_cast<size_t>(std::min<int64_t>(kGroupPanels, end - first));
                      for (size_t g = 0; g < n; ++g) {
                        const int64_t at = first + static_cast<int64_t>(g);
                        group[g] = {&weight, out.groups.empty() ? at : out.groups[static_cast<size_t>(at)]};
                      }
                      panels.compute({group, n}, first_tile, last_tile);
                      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
                        for (size_t g = 0; g < n; ++g) {
                          const int64_t row = group[g].panel * kPanelRows;
                          kernels.store_tile(panels.result(g, tile - first_tile), tiles.tokens(tile),
                                             valid_rows(weight, row), out.bias != nullptr ? out.bias + row : nullptr,
                                             out.accumulate, out.out + tile * kMaxTileTokens * out.out_stride + row,
                                             out.out_stride);
                        }
                      }
                    }
                  });
  });
}

void CpuBackend::matmul_gated(const PackedWeight& gate, const PackedWeight& up, Activation act, const float* x,
                              int64_t x_stride, int64_t n_rows, float* out, int64_t out_stride) {
  if (n_rows <= 0) return;
  const CpuWeight& gate_weight = cpu_weight(&gate);
  const CpuWeight& up_weight = cpu_weight(&up);
  const int64_t k = gate_weight.cols();
  LOCI_CHECK(up_weight.cols() == k && up_weight.rows() == gate_weight.rows(), "gate and up differ in shape");
  const bool gate_int8 = gate_weight.is_quantized() && !precise_, up_int8 = up_weight.is_quantized() && !precise_;
  TileSet tiles(x, x_stride, n_rows, k, gate_int8 || up_int8, !gate_int8 || !up_int8);
  tiles.place(tiles_.reserve(tiles.bytes()));
  const MatmulKernels& kernels = *kernels_.matmul;
  const GateFunction function = act == Activation::kSilu ? GateFunction::kSilu : GateFunction::kGeluTanh;
  const Segment segment = {gate_weight.n_panels(), 1};
  const int n_threads = threads_for_work(2 * n_rows * k * gate_weight.rows(), threads_for(n_rows));

  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    tiles.fill(kernels, worker);
    worker.barrier();
    PanelWorker panels(kernels, tiles, precise_, prefetch_bytes_);
    for_each_unit({&segment, 1}, tiles.n_tiles(), chunk_tiles_for(k), worker,
                  [&](size_t, int64_t begin, int64_t end, int64_t first_tile, int64_t last_tile) {
                    constexpr int64_t kPairs = kGroupPanels / 2;  // group: gate panels, then their up panels
                    for (int64_t first = begin; first < end; first += kPairs) {
                      PanelRef group[kGroupPanels];
                      const size_t n = static_cast<size_t>(std::min<int64_t>(kPairs, end - first));
                      for (size_t g = 0; g < n; ++g) {
                        group[g] = {&gate_weight, first + static_cast<int64_t>(g)};
                        group[n + g] = {&up_weight, first + static_cast<int64_t>(g)};
                      }
                      panels.compute({group, 2 * n}, first_tile, last_tile);
                      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
                        for (size_t g = 0; g < n; ++g) {
                          const int64_t row = group[g].panel * kPanelRows;
                          kernels.store_gated_tile(panels.result(g, tile - first_tile),
                                                   panels.result(n + g, tile - first_tile), function,
                                                   tiles.tokens(tile), valid_rows(gate_weight, row),
                                                   out + tile * kMaxTileTokens * out_stride + row, out_stride);
                        }
                      }
                    }
                  });
  });
}

}  // namespace loci::cpu
