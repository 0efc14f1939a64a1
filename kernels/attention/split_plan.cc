// Cuts attention into chunks, finds shared prefixes and deals (chunk, split) units to threads by cost.
#include "kernels/attention/split_plan.h"

#include <algorithm>

namespace loci {
namespace {

// A unit costs its multiply-adds plus the reading of its keys, which counts as this many rows.
constexpr int64_t kReadRows = 4;
// From this many chunks per thread on, cuts fall between chunks: no state has to be stored, imbalance stays small.
constexpr int64_t kChunksPerThread = 16;
// A prefix is shared when that saves at least this part of what its keys cost.
constexpr int64_t kLeastSaving = 16;
constexpr int32_t kTileTokens = 16;

int64_t unit_cost(const SplitPlanInput& input, const SplitPlan& plan, const AttentionChunk& chunk, int32_t split) {
  int64_t rows_keys = 0;
  int32_t most_keys = 0;
  for (int32_t i = chunk.token_begin; i < chunk.token_end; ++i) {
    const int32_t position = input.positions[plan.tokens[i]];
    const int32_t keys = keys_in_split(visible_keys(position, input.window), split).size();
    rows_keys += keys;
    most_keys = std::max(most_keys, keys);
  }
  return rows_keys * input.group + most_keys * kReadRows;
}

int64_t chunk_cost(const SplitPlanInput& input, const SplitPlan& plan, const AttentionChunk& chunk) {
  int64_t cost = 0;
  for (int32_t split = chunk.split_begin; split < chunk.split_end; ++split) {
    cost += unit_cost(input, plan, chunk, split);
  }
  return cost;
}

// The keys between the first and the last that any token of the chunk sees.
KeyRange chunk_keys(const SplitPlanInput& input, const SplitPlan& plan, int32_t token_begin, int32_t token_end) {
  KeyRange keys = visible_keys(input.positions[plan.tokens[token_begin]], input.window);
  for (int32_t i = token_begin + 1; i < token_end; ++i) {
    const KeyRange row = visible_keys(input.positions[plan.tokens[i]], input.window);
    keys.begin = std::min(keys.begin, row.begin);
    keys.end = std::max(keys.end, row.end);
  }
  return keys;
}

// Adds `model` once per KV head and piece of at most max_rows rows, restricted to the splits of its rows' keys.
void add_chunks(const SplitPlanInput& input, AttentionChunk model, int32_t max_rows, SplitPlan& plan,
                std::vector<AttentionChunk>& chunks) {
  const int32_t most_tokens = std::max<int32_t>(1, max_rows / input.group);
  const int32_t first_split = model.split_begin, last_split = model.split_end;
  const int32_t begin = model.token_begin, end = model.token_end;
  for (model.kv_head = 0; model.kv_head < input.n_kv_heads; ++model.kv_head) {
    for (model.token_begin = begin; model.token_begin < end; model.token_begin = model.token_end) {
      model.token_end = std::min(model.token_begin + most_tokens, end);
      const KeyRange keys = chunk_keys(input, plan, model.token_begin, model.token_end);
      model.split_begin = std::max(first_split, keys.begin / kSplitTokens);
      model.split_end = std::min(last_split, (keys.end + kSplitTokens - 1) / kSplitTokens);
      if (model.n_splits() <= 0) continue;
      chunks.push_back(model);
      const int32_t first_key = std::max(keys.begin, model.split_begin * kSplitTokens);
      const int32_t end_key = std::min(keys.end, model.split_end * kSplitTokens);
      plan.tiles_read += (end_key + kTileTokens - 1) / kTileTokens - first_key / kTileTokens;
    }
  }
}

// What shared prefixes are found from: the sequences in the order of their page lists.
class PrefixTree {
 public:
  PrefixTree(const SplitPlanInput& input, SplitPlan& plan) : input_(input), plan_(plan) {
    const auto n_seqs = static_cast<int32_t>(input.q_indptr.size()) - 1;
    own_from_.assign(n_seqs, 0);
    if (input.shared_chunk_rows <= 0 || n_seqs < 2) return;
    for (int32_t seq = 0; seq < n_seqs; ++seq) {
      const int32_t begin = input.q_indptr[seq], end = input.q_indptr[seq + 1];
      if (begin == end) continue;
      // Only splits before the first row: every row then has a split of its own left.
      const int32_t first = *std::min_element(input.positions.begin() + begin, input.positions.begin() + end);
      if (first < kSplitTokens) continue;
      members_.push_back({seq, first / kSplitTokens, visible_keys(first, input.window).begin / kSplitTokens});
    }
    if (members_.size() < 2) return;
    std::sort(members_.begin(), members_.end(), [this](const Member& a, const Member& b) {
      const std::span<const int32_t> x = pages(a), y = pages(b);
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    });
    common_.assign(members_.size(), 0);
    for (size_t i = 1; i < members_.size(); ++i) common_[i] = common_splits(members_[i - 1], members_[i]);
    build(0, members_.size(), 0, 0);
  }

  // Chunks of shared prefixes, per level.
  std::vector<std::vector<AttentionChunk>>& levels() { return levels_; }
  // The first split that a sequence does not share.
  int32_t own_from(int32_t seq) const { return own_from_[seq]; }

 private:
  struct Member {
    int32_t seq;
    int32_t n_splits;     // whole splits before its first row
    int32_t first_split;  // in which that row sees a key
  };

  // The pages of the member's whole splits.
  std::span<const int32_t> pages(const Member& member) const {
    const int32_t n = (member.n_splits * kSplitTokens + input_.page_size - 1) / input_.page_size;
    return input_.page_indices.subspan(input_.page_indptr[member.seq], n);
  }

  int32_t common_splits(const Member& a, const Member& b) const {
    const std::span<const int32_t> x = pages(a), y = pages(b);
    const auto n = std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin();
    const auto tokens = static_cast<int64_t>(n) * input_.page_size;
    return static_cast<int32_t>(std::min<int64_t>(std::min(a.n_splits, b.n_splits), tokens / kSplitTokens));
  }

  // Members [begin, end) share the splits before `from` already, which `level` chunks cover.
  void build(size_t begin, size_t end, int32_t from, size_t level) {
    if (end - begin < 2) return;
    const int32_t common = *std::min_element(common_.begin() + begin + 1, common_.begin() + end);
    if (common > std::max(from, first_split(begin, end)) && pays(begin, end)) {
      share(begin, end, from, common, level);
      from = common;
      ++level;
    }
    size_t part = begin;
    for (size_t i = begin + 1; i <= end; ++i) {
      if (i < end && common_[i] != common) continue;
      build(part, i, from, level);
      part = i;
    }
  }

  // What lies before the windows of all members need not be shared: nobody reads it, and its pages may be gone.
  int32_t first_split(size_t begin, size_t end) const {
    int32_t first = members_[begin].first_split;
    for (size_t i = begin + 1; i < end; ++i) first = std::min(first, members_[i].first_split);
    return first;
  }

  // Is what reading the keys once saves a fair part of the whole? Rows of long prompts use them often enough alone.
  bool pays(size_t begin, size_t end) const {
    int64_t rows = 0, reads = 0;
    for (size_t i = begin; i < end; ++i) {
      const int64_t n = rows_of(members_[i]);
      rows += n;
      reads += (n + input_.chunk_rows - 1) / input_.chunk_rows;
    }
    const int64_t saved = reads - (rows + input_.shared_chunk_rows - 1) / input_.shared_chunk_rows;
    return saved * kReadRows * kLeastSaving >= rows + reads * kReadRows;
  }

  int64_t rows_of(const Member& member) const {
    return int64_t{input_.q_indptr[member.seq + 1] - input_.q_indptr[member.seq]} * input_.group;
  }

  void share(size_t begin, size_t end, int32_t split_begin, int32_t split_end, size_t level) {
    AttentionChunk chunk;
    chunk.seq = members_[begin].seq;
    chunk.token_begin = static_cast<int32_t>(plan_.tokens.size());
    chunk.split_begin = split_begin;
    chunk.split_end = split_end;
    chunk.resumes = level > 0;
    chunk.keeps = true;
    for (size_t i = begin; i < end; ++i) {
      const int32_t seq = members_[i].seq;
      own_from_[seq] = split_end;
      for (int32_t row = input_.q_indptr[seq]; row < input_.q_indptr[seq + 1]; ++row) {
        plan_.tokens.push_back(row);
        if (plan_.kept[row] < 0) plan_.kept[row] = plan_.n_kept++;
      }
    }
    chunk.token_end = static_cast<int32_t>(plan_.tokens.size());
    if (levels_.size() <= level) levels_.resize(level + 1);
    add_chunks(input_, chunk, input_.shared_chunk_rows, plan_, levels_[level]);
  }

  const SplitPlanInput& input_;
  SplitPlan& plan_;
  std::vector<Member> members_;
  std::vector<int32_t> common_;    // [members] whole splits shared with the one before
  std::vector<int32_t> own_from_;  // [n_seqs]
  std::vector<std::vector<AttentionChunk>> levels_;
};

void add_level(const std::vector<AttentionChunk>& chunks, size_t index, SplitPlan& plan) {
  if (plan.levels.size() <= index) plan.levels.resize(index + 1);
  plan.levels[index].chunk_begin = static_cast<int32_t>(plan.chunks.size());
  plan.chunks.insert(plan.chunks.end(), chunks.begin(), chunks.end());
  plan.levels[index].chunk_end = static_cast<int32_t>(plan.chunks.size());
}

void deal(const SplitPlanInput& input, const SplitPlan& plan, PlanLevel& level) {
  level.bounds.clear();
  const int32_t n_chunks = level.chunk_end - level.chunk_begin;
  const int32_t n_threads = std::max(1, input.n_threads);
  const UnitCursor begin{level.chunk_begin, n_chunks > 0 ? plan.chunks[level.chunk_begin].split_begin : 0};
  const UnitCursor end{level.chunk_end, 0};
  level.bounds.push_back(begin);
  if (n_threads > 1) {
    const bool whole_chunks = n_chunks >= kChunksPerThread * n_threads;
    int64_t total = 0;
    for (int32_t c = level.chunk_begin; c < level.chunk_end; ++c) total += chunk_cost(input, plan, plan.chunks[c]);
    // A unit goes to the thread in whose share of the total cost its middle falls.
    int64_t done = 0;
    const auto cut_before = [&](UnitCursor unit, int64_t cost) {
      while (static_cast<int32_t>(level.bounds.size()) < n_threads &&
             (2 * done + cost) * n_threads >= 2 * total * static_cast<int64_t>(level.bounds.size())) {
        level.bounds.push_back(unit);
      }
      done += cost;
    };
    for (int32_t c = level.chunk_begin; c < level.chunk_end; ++c) {
      const AttentionChunk& chunk = plan.chunks[c];
      if (whole_chunks) {
        cut_before({c, chunk.split_begin}, chunk_cost(input, plan, chunk));
        continue;
      }
      for (int32_t split = chunk.split_begin; split < chunk.split_end; ++split) {
        cut_before({c, split}, unit_cost(input, plan, chunk, split));
      }
    }
  }
  while (static_cast<int32_t>(level.bounds.size()) < n_threads + 1) level.bounds.push_back(end);
}

}  // namespace

void make_split_plan(const SplitPlanInput& input, SplitPlan& plan) {
  const auto n_rows = static_cast<int32_t>(input.positions.size());
  plan.chunks.clear();
  plan.tokens.resize(n_rows);
  for (int32_t row = 0; row < n_rows; ++row) plan.tokens[row] = row;
  plan.kept.assign(n_rows, -1);
  plan.n_kept = 0;
  plan.tiles_read = 0;

  PrefixTree tree(input, plan);
  const size_t n_shared = tree.levels().size();
  for (size_t i = 0; i < n_shared; ++i) add_level(tree.levels()[i], i, plan);
  add_level({}, n_shared, plan);
  plan.levels.resize(n_shared + 1);
  for (int32_t seq = 0; seq + 1 < static_cast<int32_t>(input.q_indptr.size()); ++seq) {
    AttentionChunk chunk;
    chunk.seq = seq;
    chunk.token_begin = input.q_indptr[seq];
    chunk.token_end = input.q_indptr[seq + 1];
    chunk.split_begin = tree.own_from(seq);
    chunk.split_end = INT32_MAX;
    chunk.resumes = chunk.split_begin > 0;
    add_chunks(input, chunk, input.chunk_rows, plan, plan.chunks);
  }
  plan.levels.back().chunk_end = static_cast<int32_t>(plan.chunks.size());
  for (PlanLevel& level : plan.levels) deal(input, plan, level);
}

}  // namespace loci
