// CpuBackend: attention over paged K/V. Cuts the batch into (chunk, split) units, runs the ISA's kernel on each
// thread's range, folds the states of chunks that several threads shared, and writes the K/V pages.
#include <algorithm>
#include <cstring>

#include "kernels/attention/softmax_state.h"
#include "kernels/attention/split_plan.h"
#include "kernels/check.h"
#include "kernels/cpu/attention_args.h"
#include "kernels/cpu/attention_workspace.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/kv_format/kv_format_list.h"

namespace loci::cpu {
namespace {

constexpr int kSplitTiles = kSplitTokens / kKvTileTokens;
// Rows per chunk: enough to use a split's K/V often while it lies in L2; the states of a chunk stay there too.
constexpr int kChunkRows = 128;
// Rows per chunk of sequences with a shared prefix: reading the prefix again costs more than keeping their states.
constexpr int kSharedChunkRows = 512;
// Multiply-adds that a thread should get at least: about two microseconds of work.
constexpr int64_t kMinMultiplyAddsPerThread = 65536;
// (row, head) pairs that a thread should store at least: waking a thread costs as much as some dozens.
constexpr int64_t kMinItemsPerThread = 32;

// Pointers to the tiles of one split.
struct SplitTiles {
  const std::byte* k[kSplitTiles];
  const std::byte* v[kSplitTiles];
  int n = 0;
};

// What one thread needs while it works through its range of units.
class AttentionWorker {
 public:
  AttentionWorker(const AttentionArgs& args, const AttentionKernels& kernels, const SplitPlan& plan, float* kept,
                  AttentionThread& workspace)
      : args_(args),
        kernels_(kernels),
        plan_(plan),
        kept_(kept),
        workspace_(workspace),
        head_dim_(args.kv.head_dim),
        group_(args.n_heads / args.kv.n_kv_heads),
        stride_(SoftmaxStateLayout::stride(args.kv.head_dim)),
        k_tile_bytes_(kv_tile_bytes(args.kv.k_format, args.kv.head_dim)),
        v_tile_bytes_(kv_tile_bytes(args.kv.v_format, args.kv.head_dim)) {}

  // Works through the units [begin, end) of a level.
  void run(const PlanLevel& level, UnitCursor begin, UnitCursor end) {
    workspace_.stored_splits = 0;
    SplitTiles tiles[2];
    int current = 0;
    if (!(begin == end)) load_tiles(begin, tiles[current]);
    for (UnitCursor unit = begin; !(unit == end);) {
      const AttentionChunk& chunk = plan_.chunks[unit.chunk];
      const bool from_start = unit.split == chunk.split_begin;
      if (unit == begin || from_start) {
        prepare_chunk(chunk);
        if (from_start) begin_states(chunk);
      }
      float* states = workspace_.states;
      // A range that begins inside a chunk keeps the states of its splits apart: folding them here, before those of
      // the earlier splits, would change the order of the merge.
      const bool stored = unit.chunk == begin.chunk && begin.split != plan_.chunks[begin.chunk].split_begin;
      if (stored) {
        states = workspace_.stored + int64_t{workspace_.stored_splits++} * n_rows_ * stride_;
        clear_states(states);
      }
      UnitCursor next = unit;
      if (++next.split == chunk.split_end) {
        ++next.chunk;
        next.split = next.chunk < level.chunk_end ? plan_.chunks[next.chunk].split_begin : 0;
      }
      if (!(next == end)) load_tiles(next, tiles[1 - current]);
      attend(unit.split, tiles[current], next == end ? nullptr : &tiles[1 - current], states);
      if (!stored && next.chunk != unit.chunk) finish_chunk(chunk);
      unit = next;
      current = 1 - current;
    }
  }

  // After all threads have run: this thread began `chunk` at its first split; folds the splits that the threads after
  // it have stored, in ascending order, and writes the rows.
  void fold(const AttentionChunk& chunk, std::span<const AttentionThread> later) {
    n_rows_ = chunk.n_tokens() * group_;
    const int64_t size = int64_t{n_rows_} * stride_;
    for (const AttentionThread& other : later) {
      for (int split = 0; split < other.stored_splits; ++split) {
        const float* part = other.stored + split * size;
        for (int row = 0; row < n_rows_; ++row) {
          kernels_.merge_state(workspace_.states + row * stride_, part + row * stride_,
                               stride_ - SoftmaxStateLayout::kRowSum);
        }
      }
    }
    finish_chunk(chunk);
  }

 private:
  // Rows of a chunk are token-major: row i is token i / group, head i % group.
  void prepare_chunk(const AttentionChunk& chunk) {
    n_rows_ = chunk.n_tokens() * group_;
    const bool capped = args_.softcap > 0;
    const float factor = capped ? args_.scale / args_.softcap : args_.scale * kLog2E;
    const RowBlocks blocks = attention_row_blocks(n_rows_, kernels_.max_block_rows);
    int row = 0;
    for (int block = 0; block < blocks.n_blocks; ++block) {
      const float* rows[16];
      for (int r = 0; r < blocks.rows(block); ++r) {
        const int64_t token = token_of(chunk, row + r);
        const int64_t head = int64_t{chunk.kv_head} * group_ + (row + r) % group_;
        rows[r] = args_.q + token * args_.q_stride + head * head_dim_;
        workspace_.row_keys[row + r] = visible_keys(args_.positions[token], args_.window);
      }
      kernels_.pack_q(rows, blocks.rows(block), head_dim_, factor, workspace_.q + static_cast<size_t>(row) * head_dim_);
      row += blocks.rows(block);
    }
  }

  // Row of the batch.
  int32_t token_of(const AttentionChunk& chunk, int row) const {
    return plan_.tokens[chunk.token_begin + row / group_];
  }

  // Where the states of a token's rows lie between levels: those of a KV head's heads side by side.
  float* kept_states(const AttentionChunk& chunk, int32_t token) const {
    return kept_ + (int64_t{plan_.kept[token]} * args_.n_heads + int64_t{chunk.kv_head} * group_) * stride_;
  }

  void begin_states(const AttentionChunk& chunk) {
    if (!chunk.resumes) return clear_states(workspace_.states);
    const size_t bytes = sizeof(float) * group_ * stride_;
    for (int row = 0; row < n_rows_; row += group_) {
      std::memcpy(workspace_.states + row * stride_, kept_states(chunk, token_of(chunk, row)), bytes);
    }
  }

  void clear_states(float* states) {
    for (int row = 0; row < n_rows_; ++row) {
      states[row * stride_ + SoftmaxStateLayout::kRowMax] = -__builtin_inff();
    }
  }

  // Tiles of a unit up to the last key that any of its rows sees.
  void load_tiles(UnitCursor unit, SplitTiles& tiles) {
    const AttentionChunk& chunk = plan_.chunks[unit.chunk];
    KeyRange keys{kSplitTokens, 0};
    for (int32_t i = chunk.token_begin; i < chunk.token_end; ++i) {
      const int32_t position = args_.positions[plan_.tokens[i]];
      const KeyRange row = keys_in_split(visible_keys(position, args_.window), unit.split);
      if (row.empty()) continue;
      keys.begin = std::min(keys.begin, row.begin);
      keys.end = std::max(keys.end, row.end);
    }
    const KvLayer& kv = args_.kv;
    const int32_t* pages = args_.page_indices.data() + args_.page_indptr[chunk.seq];
    const std::byte* k_plane = kv.k_page(chunk.kv_head, 0);
    const std::byte* v_plane = kv.v_page(chunk.kv_head, 0);
    const int64_t tiles_per_page = kv.page_size / kKvTileTokens;
    tiles.n = (keys.end + kKvTileTokens - 1) / kKvTileTokens;
    for (int t = 0; t < tiles.n; ++t) {
      const int64_t token = int64_t{unit.split} * kSplitTokens + t * kKvTileTokens;
      if (t * kKvTileTokens + kKvTileTokens <= keys.begin) {  // wholly hidden by the window: its page may be gone
        tiles.k[t] = tiles.v[t] = nullptr;
        continue;
      }
      const int32_t page = pages[token / kv.page_size];
      const int64_t tile = page * tiles_per_page + token % kv.page_size / kKvTileTokens;
      LOCI_DCHECK(page >= 0 && page < kv.n_pages, "page ", page, " of ", kv.n_pages);
      tiles.k[t] = k_plane + tile * k_tile_bytes_;
      tiles.v[t] = v_plane + tile * v_tile_bytes_;
    }
  }

  void attend(int32_t split, const SplitTiles& tiles, const SplitTiles* next, float* states) {
    for (int row = 0; row < n_rows_; ++row) {
      workspace_.split_keys[row] = keys_in_split(workspace_.row_keys[row], split);
    }
    AttendSplit unit;
    unit.k_format = args_.kv.k_format;
    unit.v_format = args_.kv.v_format;
    unit.head_dim = head_dim_;
    unit.k_tiles = tiles.k;
    unit.v_tiles = tiles.v;
    unit.n_tiles = tiles.n;
    unit.next_k_tiles = next != nullptr ? next->k : nullptr;
    unit.next_n_tiles = next != nullptr ? next->n : 0;
    unit.n_rows = n_rows_;
    unit.q = workspace_.q;
    unit.keys = workspace_.split_keys.data();
    unit.softcap = args_.softcap;
    unit.states = states;
    unit.scratch = workspace_.scratch;
    unit.expanded = workspace_.expanded;
    kernels_.attend_split(unit);
  }

  void finish_chunk(const AttentionChunk& chunk) {
    if (chunk.keeps) {
      const size_t bytes = sizeof(float) * group_ * stride_;
      for (int row = 0; row < n_rows_; row += group_) {
        std::memcpy(kept_states(chunk, token_of(chunk, row)), workspace_.states + row * stride_, bytes);
      }
      return;
    }
    for (int row = 0; row < n_rows_; ++row) {
      const int64_t token = token_of(chunk, row);
      const int64_t head = int64_t{chunk.kv_head} * group_ + row % group_;
      kernels_.finish_row(workspace_.states + row * stride_, head_dim_,
                          args_.sinks != nullptr ? args_.sinks + head : nullptr,
                          args_.out + token * args_.out_stride + head * head_dim_);
    }
  }

  const AttentionArgs& args_;
  const AttentionKernels& kernels_;
  const SplitPlan& plan_;
  float* const kept_;
  AttentionThread& workspace_;
  const int head_dim_, group_, stride_;
  const int64_t k_tile_bytes_, v_tile_bytes_;
  int n_rows_ = 0;
};

// As many threads as have a fair amount of work each.
int useful_threads(const AttentionArgs& args, int n_threads) {
  if (n_threads <= 1) return 1;
  int64_t row_keys = 0;
  for (const int32_t position : args.positions) row_keys += visible_keys(position, args.window).size();
  const int64_t multiply_adds = 2 * row_keys * args.n_heads * args.kv.head_dim;
  return static_cast<int>(std::clamp<int64_t>(multiply_adds / kMinMultiplyAddsPerThread, 1, n_threads));
}

// Does the thread's range begin inside a chunk, so that it stores the states of that chunk's splits?
bool begins_inside(const SplitPlan& plan, const PlanLevel& level, int thread) {
  const UnitCursor begin = level.bounds[thread];
  return begin.chunk < level.chunk_end && begin.split != plan.chunks[begin.chunk].split_begin;
}

// Reserves what each thread needs, on the calling thread: a worker must not run out of memory.
void reserve(AttentionWorkspace& workspace, const SplitPlan& plan, int n_threads, int group, int n_heads, int head_dim,
             int block_rows) {
  if (static_cast<int>(workspace.threads.size()) < n_threads) workspace.threads.resize(n_threads);
  const auto floats = [](ScratchBuffer& buffer, int64_t n) {
    return reinterpret_cast<float*>(buffer.reserve(static_cast<size_t>(n) * sizeof(float)));
  };
  int64_t chunk_rows = 0;
  for (const AttentionChunk& chunk : plan.chunks) chunk_rows = std::max(chunk_rows, int64_t{chunk.n_tokens()} * group);
  const int64_t stride = SoftmaxStateLayout::stride(head_dim);
  for (int i = 0; i < n_threads; ++i) {
    AttentionThread& thread = workspace.threads[i];
    thread.q = floats(thread.q_buffer, chunk_rows * head_dim);
    thread.states = floats(thread.states_buffer, chunk_rows * stride);
    thread.scratch = floats(thread.scratch_buffer, block_rows * (kSplitTokens + stride));
    // Up to this width the converted split still lies in L2.
    thread.expanded = head_dim <= 256 ? floats(thread.expanded_buffer, int64_t{2} * kSplitTokens * head_dim) : nullptr;
    if (static_cast<int64_t>(thread.row_keys.size()) < chunk_rows) {
      thread.row_keys.resize(chunk_rows);
      thread.split_keys.resize(chunk_rows);
    }
    int64_t stored_rows = 0;
    for (const PlanLevel& level : plan.levels) {
      if (!begins_inside(plan, level, i)) continue;
      const UnitCursor begin = level.bounds[i], end = level.bounds[i + 1];
      const AttentionChunk& chunk = plan.chunks[begin.chunk];
      const int64_t splits = (end.chunk == begin.chunk ? end.split : chunk.split_end) - begin.split;
      stored_rows = std::max(stored_rows, splits * chunk.n_tokens() * group);
    }
    if (stored_rows > 0) thread.stored = floats(thread.stored_buffer, stored_rows * stride);
  }
  if (plan.n_kept == 0) return;
  const int64_t n_kept = int64_t{plan.n_kept} * n_heads;
  workspace.kept = floats(workspace.kept_buffer, n_kept * stride);
  for (int64_t i = 0; i < n_kept; ++i) workspace.kept[i * stride + SoftmaxStateLayout::kRowMax] = -__builtin_inff();
}

// The plan of this call: the one of an earlier call of the batch, or a new one.
const SplitPlan& find_or_make_plan(const AttentionArgs& args, int n_threads, bool share_prefixes,
                                   AttentionWorkspace& workspace) {
  const KvLayer& kv = args.kv;
  const PlanKey key{.page_indices = args.page_indices.data(),
                    .n_rows = args.positions.size(),
                    .n_page_lists = args.page_indptr.size(),
                    .n_kv_heads = kv.n_kv_heads,
                    .group = args.n_heads / kv.n_kv_heads,
                    .window = args.window,
                    .n_threads = n_threads,
                    .page_size = kv.page_size};
  if (args.batch_id == 0 || args.batch_id != workspace.batch_id) workspace.n_plans = 0;
  workspace.batch_id = args.batch_id;
  for (size_t i = 0; i < workspace.n_plans; ++i) {
    if (workspace.plans[i].key == key) return workspace.plans[i].plan;
  }
  if (workspace.plans.size() == workspace.n_plans) workspace.plans.emplace_back();
  KeptPlan& kept = workspace.plans[workspace.n_plans++];
  kept.key = key;
  ++workspace.plans_made;
  make_split_plan({.q_indptr = args.q_indptr,
                   .positions = args.positions,
                   .n_kv_heads = key.n_kv_heads,
                   .group = key.group,
                   .window = args.window,
                   .chunk_rows = kChunkRows,
                   .n_threads = n_threads,
                   .page_indptr = args.page_indptr,
                   .page_indices = args.page_indices,
                   .page_size = kv.page_size,
                   .shared_chunk_rows = share_prefixes ? kSharedChunkRows : 0},
                  kept.plan);
  return kept.plan;
}

// One thread's part of a level. Ends with a barrier where others wait for its results.
void run_level(const SplitPlan& plan, const PlanLevel& level, bool last, AttentionWorker& attention,
               std::span<const AttentionThread> threads, ThreadPool::Worker& worker) {
  bool any_cut = false;
  for (int i = 0; i < worker.count; ++i) any_cut = any_cut || begins_inside(plan, level, i);
  const UnitCursor begin = level.bounds[worker.index], end = level.bounds[worker.index + 1];
  attention.run(level, begin, end);
  if (any_cut) {
    worker.barrier();
    // Did this thread begin the chunk that its end cuts? Then it folds what later threads have stored.
    if (!(begin == end) && end.chunk < level.chunk_end) {
      const AttentionChunk& chunk = plan.chunks[end.chunk];
      const bool cut = end.split != chunk.split_begin;
      const bool began = begin.chunk < end.chunk || begin.split == chunk.split_begin;
      if (cut && began) {
        int end_thread = worker.index + 1;
        while (end_thread < worker.count && level.bounds[end_thread].chunk == end.chunk) ++end_thread;
        attention.fold(chunk, threads.subspan(worker.index + 1, end_thread - worker.index - 1));
      }
    }
  }
  if (!last) worker.barrier();
}

}  // namespace

void CpuBackend::attention(const AttentionArgs& args) {
  const AttentionKernels& kernels = *kernels_.attention;
  const KvLayer& kv = args.kv;
  const int64_t n_rows = static_cast<int64_t>(args.positions.size());
  const int64_t n_seqs = static_cast<int64_t>(args.q_indptr.size()) - 1;
  if (n_rows == 0) return;
  LOCI_CHECK(kv.n_kv_heads > 0 && args.n_heads % kv.n_kv_heads == 0, args.n_heads, " heads, ", kv.n_kv_heads,
             " KV heads");
  const int n_threads = useful_threads(args, std::min(n_rows > n_seqs ? n_threads_batch_ : n_threads_, pool_->size()));
  const int group = args.n_heads / kv.n_kv_heads;
  AttentionWorkspace& shared = attention_;
  const SplitPlan& plan = find_or_make_plan(args, n_threads, share_prefixes_, shared);
  reserve(shared, plan, n_threads, group, args.n_heads, kv.head_dim, kernels.max_block_rows);
  kv_bytes_read_ += plan.tiles_read * static_cast<int64_t>(kv_tile_bytes(kv.k_format, kv.head_dim) +
                                                           kv_tile_bytes(kv.v_format, kv.head_dim));

  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    AttentionWorker attention(args, kernels, plan, shared.kept, shared.threads[worker.index]);
    for (const PlanLevel& level : plan.levels) {
      run_level(plan, level, &level == &plan.levels.back(), attention, shared.threads, worker);
    }
  });
}

void CpuBackend::kv_store(const KvLayer& kv, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                          std::span<const int64_t> slots) {
  const AttentionKernels& kernels = *kernels_.attention;
  const int64_t n_rows = static_cast<int64_t>(slots.size());
  const size_t k_tile_bytes = kv_tile_bytes(kv.k_format, kv.head_dim);
  const size_t v_tile_bytes = kv_tile_bytes(kv.v_format, kv.head_dim);
  const int64_t tiles_per_page = kv.page_size / kKvTileTokens;
  const size_t head_bytes = kv.head_bytes(), k_plane_bytes = kv.k_page_bytes() * static_cast<size_t>(kv.n_pages);
  // (row, head) pairs in order, so that a head's neighbouring tokens are written by one thread.
  const int64_t n_items = n_rows * kv.n_kv_heads;
  const int n_threads = n_items >= kMinItemsPerThread * 2 ? threads_for(n_rows) : 1;
  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_items);
    for (int64_t item = begin; item < end; ++item) {
      const int head = static_cast<int>(item / n_rows);
      const int64_t row = item % n_rows;
      const int64_t page = slots[row] / kv.page_size;
      const int64_t offset = slots[row] % kv.page_size;
      LOCI_DCHECK(slots[row] >= 0 && page < kv.n_pages, "slot ", slots[row], " of ", kv.n_pages, " pages");
      const int64_t tile = page * tiles_per_page + offset / kKvTileTokens;
      std::byte* k_plane = kv.base + head * head_bytes;
      std::byte* v_plane = k_plane + k_plane_bytes;
      const int token = static_cast<int>(offset % kKvTileTokens);
      kernels.kv_store_k(kv.k_format, k + row * k_stride + int64_t{head} * kv.head_dim, kv.head_dim,
                         k_plane + tile * k_tile_bytes, token);
      kernels.kv_store_v(kv.v_format, v + row * v_stride + int64_t{head} * kv.head_dim, kv.head_dim,
                         v_plane + tile * v_tile_bytes, token);
    }
  });
}

void CpuBackend::kv_copy_pages(const KvLayer& kv, std::span<const int32_t> src, std::span<const int32_t> dst) {
  LOCI_CHECK(src.size() == dst.size(), "pages to copy: ", src.size(), " from, ", dst.size(), " to");
  for (int head = 0; head < kv.n_kv_heads; ++head) {
    for (size_t i = 0; i < src.size(); ++i) {
      if (src[i] == dst[i]) continue;
      std::memcpy(kv.k_page(head, dst[i]), kv.k_page(head, src[i]), kv.k_page_bytes());
      std::memcpy(kv.v_page(head, dst[i]), kv.v_page(head, src[i]), kv.v_page_bytes());
    }
  }
}

}  // namespace loci::cpu
