// One gated feed-forward block: norm, act(gate) * up, down, residual add.
#include "engine/model/decoder.h"

namespace loci {

void ffn_block(const ArchSpec& arch, const LayerWeights& weights, int64_t first_row, int64_t n_rows,
               const Activations& a, Backend& backend) {
  const int64_t n = n_rows - first_row;
  float* x = a.x + first_row * a.dim_stride;
  float* normed = a.normed + first_row * a.dim_stride;
  float* hidden = a.ffn + first_row * a.ffn_stride;
  backend.rms_norm(x, a.dim_stride, weights.ffn_norm.data(), arch.norm_eps, n, 1, arch.dim, normed, a.dim_stride);
  backend.matmul_gated(*weights.gate, *weights.up, arch.activation, normed, a.dim_stride, n, hidden, a.ffn_stride);
  const bool post_norm = !weights.post_ffn_norm.empty();
  const MatmulOut down{.weight = weights.down.get(),
                       .bias = weights.down_bias.empty() ? nullptr : weights.down_bias.data(),
                       .out = post_norm ? normed : x,
                       .out_stride = a.dim_stride,
                       .accumulate = !post_norm};
  backend.matmul(std::span(&down, 1), hidden, a.ffn_stride, n);
  if (!post_norm) return;
  backend.rms_norm(normed, a.dim_stride, weights.post_ffn_norm.data(), arch.norm_eps, n, 1, arch.dim, normed,
                   a.dim_stride);
  backend.add(x, a.dim_stride, normed, a.dim_stride, n, arch.dim);
}

}  // namespace loci
