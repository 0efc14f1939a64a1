// AttentionHarness: sequences with known Q, K, V whose cache lies in poisoned, scattered pages, for tests and
// benchmarks of Backend::attention.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/kv_format/kv_format_list.h"
#include "tests/support/oracle.h"

namespace loci {

struct AttentionShape {
  int n_heads = 1, n_kv_heads = 1, head_dim = 64;
  KvFormat k_format = KvFormat::kF16, v_format = KvFormat::kF16;
  int window = 0;
  float softcap = 0;
  std::vector<float> sinks = {};  // empty: none
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

// K and V already rounded to the cache's format, so that storing them loses nothing.
struct AttentionSequence {
  int n_tokens = 0;
  std::vector<float> q;  // [n_tokens, n_heads, head_dim]
  std::vector<float> k;  // [n_tokens, n_kv_heads, head_dim]
  std::vector<float> v;
};

// `values` [n, head_dim] as the format stores rows of head_dim.
inline void round_to_format(KvFormat format, int head_dim, std::vector<float>& values) {
  std::vector<std::byte> tile(kv_tile_bytes(format, head_dim));
  visit_kv_format(format, [&](auto tag) {
    for (size_t row = 0; row < values.size(); row += head_dim) {
      tag.write_v(tile.data(), 0, head_dim, values.data() + row);
      for (int d = 0; d < head_dim; ++d) values[row + d] = tag.read_v(tile.data(), 0, d, head_dim);
    }
  });
}

// kFlat: scores of variance 1; kPeaky: variance 16; kOutlier: two K channels at +60; kSink: the first key wins.
enum class AttentionData { kFlat, kPeaky, kOutlier, kSink };

inline AttentionSequence make_sequence(const AttentionShape& shape, int n_tokens, AttentionData data, uint32_t seed) {
  AttentionSequence s;
  s.n_tokens = n_tokens;
  const size_t q_row = static_cast<size_t>(shape.n_heads) * shape.head_dim;
  const size_t kv_row = static_cast<size_t>(shape.n_kv_heads) * shape.head_dim;
  s.q = oracle::normal(n_tokens * q_row, seed, data == AttentionData::kFlat ? 1.0f : 4.0f);
  s.k = oracle::normal(n_tokens * kv_row, seed + 1);
  s.v = oracle::normal(n_tokens * kv_row, seed + 2);
  for (int t = 0; t < n_tokens; ++t) {
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      float* key = s.k.data() + t * kv_row + static_cast<size_t>(h) * shape.head_dim;
      if (data == AttentionData::kOutlier) key[1] += 60, key[shape.head_dim / 2] += 60;
      if (data == AttentionData::kSink && t == 0) {
        // Along the first query of the group, long enough for a score of about 8.
        const float* q = s.q.data() + static_cast<size_t>(h) * (shape.n_heads / shape.n_kv_heads) * shape.head_dim;
        for (int d = 0; d < shape.head_dim; ++d) key[d] = q[d] * 0.25f;
      }
    }
  }
  round_to_format(shape.k_format, shape.head_dim, s.k);
  round_to_format(shape.v_format, shape.head_dim, s.v);
  return s;
}

class AttentionHarness {
 public:
  AttentionHarness(Backend& backend, const AttentionShape& shape, const std::vector<AttentionSequence>& sequences,
                   int page_size, bool scatter_pages = true, uint32_t page_seed = 1)
      : backend_(backend), shape_(shape), sequences_(sequences) {
    kv_.k_format = shape.k_format;
    kv_.v_format = shape.v_format;
    kv_.n_kv_heads = shape.n_kv_heads;
    kv_.head_dim = shape.head_dim;
    kv_.page_size = page_size;
    std::vector<int32_t> n_pages;
    for (const AttentionSequence& s : sequences) n_pages.push_back((s.n_tokens + page_size - 1) / page_size);
    kv_.n_pages = std::accumulate(n_pages.begin(), n_pages.end(), 0) + 3;  // some pages belong to nobody
    memory_ = backend.allocate(kv_.total_bytes());
    kv_.base = memory_.get();
    std::memset(kv_.base, 0xff, kv_.total_bytes());  // NaN in every format
    std::vector<int32_t> ids(kv_.n_pages);
    std::iota(ids.begin(), ids.end(), 0);
    if (scatter_pages) std::shuffle(ids.begin(), ids.end(), std::mt19937(page_seed));
    size_t used = 0;
    for (const int32_t n : n_pages) {
      pages_.emplace_back(ids.begin() + used, ids.begin() + used + n);
      used += n;
      out_.emplace_back();
    }
    for (size_t i = 0; i < sequences.size(); ++i) out_[i].assign(sequences[i].q.size(), -1234.5f);
  }

  KvLayer& kv() { return kv_; }
  // From now on `sequence` begins with the pages that hold the first `tokens` tokens of `with`; both hold the same K,
  // V.
  void share(size_t sequence, size_t with, int tokens) {
    std::copy_n(pages_[with].begin(), tokens / kv_.page_size, pages_[sequence].begin());
  }
  // Attention output of a sequence: [n_tokens, n_heads, head_dim], of the rows that were run.
  const std::vector<float>& out(size_t sequence) const { return out_[sequence]; }

  // Writes K and V of tokens [begin, end) of a sequence to its pages.
  void store(size_t sequence, int begin, int end) {
    const AttentionSequence& s = sequences_[sequence];
    std::vector<int64_t> slots;
    for (int t = begin; t < end; ++t) {
      slots.push_back(int64_t{pages_[sequence][t / kv_.page_size]} * kv_.page_size + t % kv_.page_size);
    }
    const int64_t stride = int64_t{shape_.n_kv_heads} * shape_.head_dim;
    backend_.kv_store(kv_, s.k.data() + begin * stride, stride, s.v.data() + begin * stride, stride, slots);
  }

  struct Range {
    size_t sequence;
    int begin, end;  // tokens
  };
  // One call of Backend::attention: the rows of all ranges, whose K/V must be in place.
  void attend(const std::vector<Range>& ranges) {
    const int64_t stride = int64_t{shape_.n_heads} * shape_.head_dim;
    std::vector<float> q, out;
    std::vector<int32_t> q_indptr{0}, page_indptr{0}, page_indices, positions;
    for (const Range& range : ranges) {
      const AttentionSequence& s = sequences_[range.sequence];
      q.insert(q.end(), s.q.begin() + range.begin * stride, s.q.begin() + range.end * stride);
      for (int t = range.begin; t < range.end; ++t) positions.push_back(t);
      q_indptr.push_back(static_cast<int32_t>(positions.size()));
      const auto& pages = pages_[range.sequence];
      page_indices.insert(page_indices.end(), pages.begin(),
                          pages.begin() + (range.end + kv_.page_size - 1) / kv_.page_size);
      page_indptr.push_back(static_cast<int32_t>(page_indices.size()));
    }
    out.resize(q.size());
    AttentionArgs args;
    args.q = q.data();
    args.q_stride = stride;
    args.out = out.data();
    args.out_stride = stride;
    args.kv = kv_;
    args.q_indptr = q_indptr;
    args.page_indptr = page_indptr;
    args.page_indices = page_indices;
    args.positions = positions;
    args.n_heads = shape_.n_heads;
    args.scale = shape_.scale();
    args.softcap = shape_.softcap;
    args.window = shape_.window;
    args.sinks = shape_.sinks.empty() ? nullptr : shape_.sinks.data();
    backend_.attention(args);
    for (size_t i = 0; i < ranges.size(); ++i) {
      std::copy(out.begin() + q_indptr[i] * stride, out.begin() + q_indptr[i + 1] * stride,
                out_[ranges[i].sequence].begin() + ranges[i].begin * stride);
    }
  }

  // Prefill of all sequences side by side, `chunk` tokens of each per call.
  void prefill(int chunk) {
    int longest = 0;
    for (const AttentionSequence& s : sequences_) longest = std::max(longest, s.n_tokens);
    for (int begin = 0; begin < longest; begin += chunk) {
      std::vector<Range> ranges;
      for (size_t i = 0; i < sequences_.size(); ++i) {
        const int end = std::min(begin + chunk, sequences_[i].n_tokens);
        if (begin >= end) continue;
        store(i, begin, end);
        ranges.push_back({i, begin, end});
      }
      attend(ranges);
    }
  }

 private:
  Backend& backend_;
  const AttentionShape shape_;
  const std::vector<AttentionSequence>& sequences_;
  KvLayer kv_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::vector<int32_t>> pages_;  // [sequence]
  std::vector<std::vector<float>> out_;      // [sequence]
};

// Rows [begin, end) of a sequence by the textbook.
template <typename Real>
std::vector<Real> textbook(const AttentionShape& shape, const AttentionSequence& s, int begin, int end) {
  std::vector<int32_t> positions(end - begin);
  std::iota(positions.begin(), positions.end(), begin);
  oracle::Attention a;
  a.n_heads = shape.n_heads;
  a.n_kv_heads = shape.n_kv_heads;
  a.head_dim = shape.head_dim;
  a.scale = shape.scale();
  a.softcap = shape.softcap;
  a.window = shape.window;
  a.sinks = shape.sinks.empty() ? nullptr : shape.sinks.data();
  a.positions = positions;
  a.q = s.q.data() + static_cast<size_t>(begin) * shape.n_heads * shape.head_dim;
  a.k = s.k.data();
  a.v = s.v.data();
  return oracle::attention<Real>(a);
}

}  // namespace loci
