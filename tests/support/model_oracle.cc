#include "tests/support/model_oracle.h"

#include <algorithm>
#include <cmath>

#include "kernels/quant/quant.h"

namespace loci::test {

ModelOracle::ModelOracle(const std::string& path) : file_(gguf::File::open(path)) {
  arch_ = file_.metadata().require_string("general.architecture");
  dim_ = static_cast<int>(number("embedding_length", 0));
  n_layers_ = static_cast<int>(number("block_count", 0));
  n_heads_ = static_cast<int>(number("attention.head_count", 0));
  n_kv_heads_ = static_cast<int>(number("attention.head_count_kv", n_heads_));
  head_dim_ = static_cast<int>(number("attention.key_length", dim_ / n_heads_));
  eps_ = number("attention.layer_norm_rms_epsilon", 0);
  for (const TensorView& tensor : file_.tensors()) {
    std::vector<float>& out = tensors_[tensor.name];
    out.resize(static_cast<size_t>(tensor.n_elements()));
    for (int64_t r = 0; r < tensor.n_rows(); ++r) {
      dequantize_row(tensor.type, tensor.row(r), out.data() + r * tensor.ne[0], tensor.ne[0]);
    }
  }
}

double ModelOracle::number(const std::string& suffix, double missing) const {
  const gguf::Value* value = file_.metadata().find(arch_ + "." + suffix);
  if (value == nullptr) return missing;
  if (const auto* integer = std::get_if<int64_t>(&value->data)) return static_cast<double>(*integer);
  if (const auto list = value->ints()) return static_cast<double>(list->at(0));
  return std::get<double>(value->data);
}

ModelOracle::Rows ModelOracle::linear(const Rows& x, const std::string& name) const {
  const std::vector<float>& w = values(name + ".weight");
  const size_t n_in = x[0].size(), n_out = w.size() / n_in;
  Rows y(x.size(), std::vector<double>(n_out));
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t o = 0; o < n_out; ++o) {
      double sum = has(name + ".bias") ? values(name + ".bias")[o] : 0;
      for (size_t i = 0; i < n_in; ++i) sum += w[o * n_in + i] * x[r][i];
      y[r][o] = sum;
    }
  }
  return y;
}

std::vector<double> ModelOracle::norm(const std::vector<double>& x, const std::string& name) const {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps_);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * values(name)[i];
  return y;
}

void ModelOracle::norm_heads(std::vector<double>& x, const std::string& name) const {
  if (!has(name)) return;
  for (size_t h = 0; h < x.size(); h += static_cast<size_t>(head_dim_)) {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(h);
    const std::vector<double> normed = norm(std::vector<double>(begin, begin + head_dim_), name);
    std::copy(normed.begin(), normed.end(), begin);
  }
}

void ModelOracle::rotate(std::vector<double>& x, int position, double base, double scale) const {
  const int n_rot = static_cast<int>(number("rope.dimension_count", head_dim_));
  const bool adjacent = arch_ == "llama";
  for (size_t h = 0; h < x.size(); h += static_cast<size_t>(head_dim_)) {
    for (int k = 0; k < n_rot / 2; ++k) {
      const double factor = has("rope_freqs.weight") ? values("rope_freqs.weight")[static_cast<size_t>(k)] : 1;
      const double angle = position * std::pow(base, -2.0 * k / n_rot) / factor * scale;
      double& a = x[h + static_cast<size_t>(adjacent ? 2 * k : k)];
      double& b = x[h + static_cast<size_t>(adjacent ? 2 * k + 1 : k + n_rot / 2)];
      const double old_a = a, old_b = b;
      a = old_a * std::cos(angle) - old_b * std::sin(angle);
      b = old_a * std::sin(angle) + old_b * std::cos(angle);
    }
  }
}

ModelOracle::Rows ModelOracle::attention(const Rows& normed, int layer) const {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const size_t q_dim = static_cast<size_t>(n_heads_ * head_dim_), kv_dim = static_cast<size_t>(n_kv_heads_ * head_dim_);
  Rows q, k, v;
  if (has(prefix + "attn_qkv.weight")) {
    for (const std::vector<double>& row : linear(normed, prefix + "attn_qkv")) {
      const auto at = [&](size_t i) { return row.begin() + static_cast<ptrdiff_t>(i); };
      q.emplace_back(at(0), at(q_dim));
      k.emplace_back(at(q_dim), at(q_dim + kv_dim));
      v.emplace_back(at(q_dim + kv_dim), at(q_dim + 2 * kv_dim));
    }
  } else {
    q = linear(normed, prefix + "attn_q");
    k = linear(normed, prefix + "attn_k");
    v = linear(normed, prefix + "attn_v");
  }
  const int window = static_cast<int>(number("attention.sliding_window", 0));
  const bool windowed = arch_ == "gemma3" && window > 0 && layer % 6 < 5;
  const double base = windowed ? 10000 : number("rope.freq_base", 10000);
  const double scale = windowed ? 1 : 1 / number("rope.scaling.factor", 1);
  for (size_t r = 0; r < q.size(); ++r) {
    norm_heads(q[r], prefix + "attn_q_norm.weight");
    norm_heads(k[r], prefix + "attn_k_norm.weight");
    rotate(q[r], static_cast<int>(r), base, scale);
    rotate(k[r], static_cast<int>(r), base, scale);
  }
  Rows out(q.size(), std::vector<double>(q_dim));
  for (size_t r = 0; r < q.size(); ++r) {
    for (int h = 0; h < n_heads_; ++h) {
      const size_t q_at = static_cast<size_t>(h * head_dim_);
      const size_t kv_at = static_cast<size_t>(h / (n_heads_ / n_kv_heads_) * head_dim_);
      std::vector<double> p(r + 1, 0);
      double sum = 0;
      for (size_t t = 0; t <= r; ++t) {
        if (windowed && r - t >= static_cast<size_t>(window)) continue;
        double score = 0;
        for (size_t c = 0; c < static_cast<size_t>(head_dim_); ++c) score += q[r][q_at + c] * k[t][kv_at + c];
        p[t] = std::exp(score / std::sqrt(head_dim_));
        sum += p[t];
      }
      for (size_t t = 0; t <= r; ++t) {
        for (size_t c = 0; c < static_cast<size_t>(head_dim_); ++c) out[r][q_at + c] += p[t] / sum * v[t][kv_at + c];
      }
    }
  }
  return linear(out, prefix + "attn_output");
}

ModelOracle::Rows ModelOracle::ffn(const Rows& normed, int layer) const {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  Rows gate = linear(normed, prefix + "ffn_gate");
  const Rows up = linear(normed, prefix + "ffn_up");
  for (size_t r = 0; r < gate.size(); ++r) {
    for (size_t i = 0; i < gate[r].size(); ++i) {
      const double x = gate[r][i];
      const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      gate[r][i] = (arch_ == "gemma3" ? gelu : x / (1 + std::exp(-x))) * up[r][i];
    }
  }
  return linear(gate, prefix + "ffn_down");
}

std::vector<std::vector<double>> ModelOracle::logits(const std::vector<int32_t>& tokens) const {
  const bool is_gemma = arch_ == "gemma3";
  Rows x;
  for (const int32_t token : tokens) {
    std::vector<double> row(static_cast<size_t>(dim_));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] =
          values("token_embd.weight")[static_cast<size_t>(token) * row.size() + i] * (is_gemma ? std::sqrt(dim_) : 1);
    }
    x.push_back(std::move(row));
  }
  const auto add_block = [&](const std::string& before, const std::string& after, auto&& block) {
    Rows normed;
    for (const std::vector<double>& row : x) normed.push_back(norm(row, before));
    Rows y = block(normed);
    for (size_t r = 0; r < x.size(); ++r) {
      if (has(after)) y[r] = norm(y[r], after);
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  };
  for (int layer = 0; layer < n_layers_; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    add_block(prefix + "attn_norm.weight", prefix + "post_attention_norm.weight",
              [&](const Rows& normed) { return attention(normed, layer); });
    add_block(prefix + "ffn_norm.weight", prefix + "post_ffw_norm.weight",
              [&](const Rows& normed) { return ffn(normed, layer); });
  }
  for (std::vector<double>& row : x) row = norm(row, "output_norm.weight");
  return linear(x, has("output.weight") ? "output" : "token_embd");
}

}  // namespace loci::test
