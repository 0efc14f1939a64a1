// One attention block: norm, q/k/v, per-head norms, rope, K/V to pages, attention, output projection, residual add.
#include <algorithm>

#include "engine/model/decoder.h"

namespace loci {
namespace {

const float* or_null(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

// The part of the batch from `first_row` on as attention sees it: sequences that end before it are left out.
struct TailRows {
  std::vector<int32_t> q_indptr;
  size_t first_sequence = 0;
};

TailRows tail_rows(const Batch& batch, int64_t first_row) {
  TailRows tail;
  const auto first = static_cast<int32_t>(first_row);
  while (batch.q_indptr[tail.first_sequence + 1] <= first) ++tail.first_sequence;
  for (size_t s = tail.first_sequence; s < batch.q_indptr.size(); ++s) {
    tail.q_indptr.push_back(std::max(batch.q_indptr[s], first) - first);
  }
  return tail;
}

}  // namespace

void attention_block(const ArchSpec& arch, const LayerSpec& layer, const LayerWeights& weights, const KvLayer& kv,
                     const KvPlaces& places, const StepPlan& plan, int64_t first_row, const Activations& a,
                     Backend& backend) {
  const Batch& batch = *plan.batch;
  const int64_t n_rows = batch.n_rows();
  const RopeAngles& angles = plan.angles[static_cast<size_t>(layer.rope)];
  backend.rms_norm(a.x, a.dim_stride, weights.attn_norm.data(), arch.norm_eps, n_rows, 1, arch.dim, a.normed,
                   a.dim_stride);
  for_each_run(plan, 0, n_rows, backend, [&](int64_t row, int64_t count) {
    float* q = a.q + row * a.q_stride;
    float* k = a.k + row * a.kv_stride;
    float* v = a.v + row * a.kv_stride;
    const MatmulOut qkv[] = {
        {.weight = weights.q.get(), .bias = or_null(weights.q_bias), .out = q, .out_stride = a.q_stride},
        {.weight = weights.k.get(), .bias = or_null(weights.k_bias), .out = k, .out_stride = a.kv_stride},
        {.weight = weights.v.get(), .bias = or_null(weights.v_bias), .out = v, .out_stride = a.kv_stride},
    };
    backend.matmul(qkv, a.normed + row * a.dim_stride, a.dim_stride, count);
  });
  if (!weights.q_norm.empty()) {
    backend.rms_norm(a.q, a.q_stride, weights.q_norm.data(), arch.norm_eps, n_rows, layer.n_heads, layer.head_dim, a.q,
                     a.q_stride);
  }
  if (!weights.k_norm.empty()) {
    backend.rms_norm(a.k, a.kv_stride, weights.k_norm.data(), arch.norm_eps, n_rows, layer.n_kv_heads, layer.head_dim,
                     a.k, a.kv_stride);
  }
  backend.rope(a.q, a.q_stride, n_rows, layer.n_heads, layer.head_dim, angles, arch.pairing);
  backend.rope(a.k, a.kv_stride, n_rows, layer.n_kv_heads, layer.head_dim, angles, arch.pairing);
  backend.kv_store(kv, a.k, a.kv_stride, a.v, a.kv_stride, places.slots);
  for (size_t i = 0; i < batch.copy_rows.size(); ++i) {
    const int64_t at = batch.copy_rows[i] * a.kv_stride;
    backend.kv_store(kv, a.k + at, a.kv_stride, a.v + at, a.kv_stride, places.copy_slots.subspan(i, 1));
  }
  if (first_row == n_rows) return;

  const TailRows tail = tail_rows(batch, first_row);
  AttentionArgs args;
  args.batch_id = plan.batch_id;
  args.q = a.q + first_row * a.q_stride;
  args.q_stride = a.q_stride;
  args.out = a.attn + first_row * a.q_stride;
  args.out_stride = a.q_stride;
  args.kv = kv;
  args.q_indptr = tail.q_indptr;
  args.page_indptr = std::span(batch.page_indptr).subspan(tail.first_sequence);
  args.page_indices = places.page_indices;
  args.positions = std::span(batch.positions).subspan(static_cast<size_t>(first_row));
  args.n_heads = layer.n_heads;
  args.scale = layer.scale;
  args.softcap = arch.attn_softcap;
  args.window = layer.window;
  args.sinks = or_null(weights.sinks);
  backend.attention(args);

  // Without a post-norm the projection adds to the residual stream itself.
  const bool post_norm = !weights.post_attn_norm.empty();
  float* x = a.x + first_row * a.dim_stride;
  float* normed = a.normed + first_row * a.dim_stride;
  for_each_run(plan, first_row, n_rows, backend, [&](int64_t row, int64_t count) {
    const MatmulOut output{.weight = weights.o.get(),
                           .bias = or_null(weights.o_bias),
                           .out = (post_norm ? a.normed : a.x) + row * a.dim_stride,
                           .out_stride = a.dim_stride,
                           .accumulate = !post_norm};
    backend.matmul(std::span(&output, 1), a.attn + row * a.q_stride, a.q_stride, count);
  });
  if (!post_norm) return;
  backend.rms_norm(normed, a.dim_stride, weights.post_attn_norm.data(), arch.norm_eps, n_rows - first_row, 1, arch.dim,
                   normed, a.dim_stride);
  backend.add(x, a.dim_stride, normed, a.dim_stride, n_rows - first_row, arch.dim);
}

}  // namespace loci
