// One gated feed-forward block: norm, act(gate) * up, down, residual add.
#include "engine/model/decoder.h"

namespace loci {

void ffn_block(const ArchSpec& arch, const LayerWeights& weights, const StepPlan& plan, int64_t first_row,
               const Activations& a, Backend& backend) {
  const int64_t n_rows = plan.batch->n_rows();
  const int64_t n = n_rows - first_row;
  float* x = a.x + first_row * a.dim_stride;
  float* normed = a.normed + first_row * a.dim_stride;
  const bool post_norm = !weights.post_ffn_norm.empty();
  backend.rms_norm(x, a.dim_stride, weights.ffn_norm.data(), arch.norm_eps, n, 1, arch.dim, normed, a.dim_stride);
  for_each_run(plan, first_row, n_rows, backend, [&](int64_t row, int64_t count) {
    float* hidden = a.ffn + row * a.ffn_stride;
    backend.matmul_gated(*weights.gate, *weights.up, arch.activation, a.normed + row * a.dim_stride, a.dim_stride,
                         count, hidden, a.ffn_stride);
    const MatmulOut down{.weight = weights.down.get(),
                         .bias = weights.down_bias.empty() ? nullptr : weights.down_bias.data(),
                         .out = (post_norm ? a.normed : a.x) + row * a.dim_stride,
                         .out_stride = a.dim_stride,
                         .accumulate = !post_norm};
    backend.matmul(std::span(&down, 1), hidden, a.ffn_stride, count);
  });
  if (!post_norm) return;
  backend.rms_norm(normed, a.dim_stride, weights.post_ffn_norm.data(), arch.norm_eps, n, 1, arch.dim, normed,
                   a.dim_stride);
  backend.add(x, a.dim_stride, normed, a.dim_stride, n, arch.dim);
}

}  // namespace loci
