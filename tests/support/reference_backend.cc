#include "tests/support/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "kernels/kv_format/kv_format_list.h"
#include "kernels/quant/quant.h"

namespace loci::test {
namespace {

struct DenseWeight final : PackedWeight {
  int64_t n_rows = 0, n_cols = 0;
  std::vector<float> values;  // [n_rows, n_cols]

  int64_t rows() const override { return n_rows; }
  int64_t cols() const override { return n_cols; }
  size_t bytes() const override { return values.size() * sizeof(float); }
  bool reads_source() const override { return false; }
  double dot(int64_t row, const float* x) const {
    double sum = 0;
    for (int64_t i = 0; i < n_cols; ++i)
      sum += static_cast<double>(values[static_cast<size_t>(row * n_cols + i)]) * x[i];
    return sum;
  }
};

double activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

// The tile of a page that holds its token `offset`.
template <typename Byte>
Byte* tile_of(KvFormat format, Byte* page, int offset, int head_dim) {
  return page + static_cast<size_t>(offset / kKvTileTokens) * kv_tile_bytes(format, head_dim);
}

float read(bool keys, KvFormat format, const std::byte* page, int offset, int channel, int head_dim) {
  const std::byte* tile = tile_of(format, page, offset, head_dim);
  const int token = offset % kKvTileTokens;
  float value = 0;
  visit_kv_format(format, [&](auto f) {
    value = keys ? f.read_k(tile, token, channel, head_dim) : f.read_v(tile, token, channel, head_dim);
  });
  return value;
}

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(std::function<void()> on_attention) : on_attention_(std::move(on_attention)) {}

  std::string describe() const override { return "reference, 1 thread"; }
  void set_threads(int, int) override {}

  std::unique_ptr<PackedWeight> prepare(const TensorView& weight, const SourceRead& read) override {
    auto dense = std::make_unique<DenseWeight>();
    dense->n_rows = weight.n_rows();
    dense->n_cols = weight.row_length();
    dense->values.resize(static_cast<size_t>(weight.n_elements()));
    for (int64_t row = 0; row < dense->n_rows; ++row) {
      dequantize_row(weight.type, weight.row(row), dense->values.data() + row * dense->n_cols, dense->n_cols);
    }
    if (read) read({weight.data, static_cast<size_t>(weight.n_bytes())});
    return dense;
  }

  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, rounded);
    return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
  }

  void embed(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
             int64_t out_stride) override {
    for (size_t r = 0; r < ids.size(); ++r) {
      float* row = out + static_cast<int64_t>(r) * out_stride;
      dequantize_row(table.type, table.row(ids[r]), row, table.row_length());
      for (int64_t i = 0; i < table.row_length(); ++i) row[i] *= scale;
    }
  }

  void embed(const PackedWeight& table, std::span<const int32_t> ids, float scale, float* out,
             int64_t out_stride) override {
    const auto& dense = static_cast<const DenseWeight&>(table);
    for (size_t r = 0; r < ids.size(); ++r) {
      const float* row = dense.values.data() + ids[r] * dense.n_cols;
      for (int64_t i = 0; i < dense.n_cols; ++i) out[static_cast<int64_t>(r) * out_stride + i] = row[i] * scale;
    }
  }

  void rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t n_rows, int n_groups,
                int64_t dim, float* out, int64_t out_stride) override {
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int g = 0; g < n_groups; ++g) {
        const float* in = x + r * x_stride + g * dim;
        float* to = out + r * out_stride + g * dim;
        double squares = 0;
        for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(in[i]) * in[i];
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(dim) + eps);
        for (int64_t i = 0; i < dim; ++i) to[i] = static_cast<float>(in[i] * inverse * weight[i]);
      }
    }
  }

  void matmul(std::span<const MatmulOut> outs, const float* x, int64_t x_stride, int64_t n_rows) override {
    for (const MatmulOut& out : outs) {
      const auto& weight = static_cast<const DenseWeight&>(*out.weight);
      for (int64_t r = 0; r < n_rows; ++r) {
        for (int64_t n = 0; n < weight.n_rows; ++n) {
          if (!out.groups.empty() && !std::binary_search(out.groups.begin(), out.groups.end(), n / kOutputGroup))
            continue;
          float& to = out.out[r * out.out_stride + n];
          const double bias = out.bias == nullptr ? 0 : out.bias[n];
          to = static_cast<float>(weight.dot(n, x + r * x_stride) + bias + (out.accumulate ? to : 0));
        }
      }
    }
  }

  void matmul_gated(const PackedWeight& gate, const PackedWeight& up, Activation act, const float* x, int64_t x_stride,
                    int64_t n_rows, float* out, int64_t out_stride) override {
    const auto& g = static_cast<const DenseWeight&>(gate);
    const auto& u = static_cast<const DenseWeight&>(up);
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t n = 0; n < g.n_rows; ++n) {
        const float* in = x + r * x_stride;
        out[r * out_stride + n] = static_cast<float>(activate(act, g.dot(n, in)) * u.dot(n, in));
      }
    }
  }

  void rope(float* x, int64_t stride, int64_t n_rows, int n_heads, int head_dim, const RopeAngles& angles,
            RopePairing pairing) override {
    const int half = angles.n_rot / 2;
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int h = 0; h < n_heads; ++h) {
        float* head = x + r * stride + int64_t{h} * head_dim;
        for (int i = 0; i < half; ++i) {
          const auto at = static_cast<size_t>(r * half + i);
          float& a = head[pairing == RopePairing::kAdjacent ? 2 * i : i];
          float& b = head[pairing == RopePairing::kAdjacent ? 2 * i + 1 : i + half];
          const double c = angles.cos[at], s = angles.sin[at], old_a = a, old_b = b;
          a = static_cast<float>(old_a * c - old_b * s);
          b = static_cast<float>(old_a * s + old_b * c);
        }
      }
    }
  }

  void kv_store(const KvLayer& kv, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                std::span<const int64_t> slots) override {
    for (size_t r = 0; r < slots.size(); ++r) {
      const int64_t page = slots[r] / kv.page_size;
      const int offset = static_cast<int>(slots[r] % kv.page_size);
      for (int h = 0; h < kv.n_kv_heads; ++h) {
        const auto row = static_cast<int64_t>(r), at = int64_t{h} * kv.head_dim;
        std::byte* k_tile = tile_of(kv.k_format, kv.k_page(h, page), offset, kv.head_dim);
        std::byte* v_tile = tile_of(kv.v_format, kv.v_page(h, page), offset, kv.head_dim);
        const int token = offset % kKvTileTokens;
        visit_kv_format(kv.k_format, [&](auto f) { f.write_k(k_tile, token, kv.head_dim, k + row * k_stride + at); });
        visit_kv_format(kv.v_format, [&](auto f) { f.write_v(v_tile, token, kv.head_dim, v + row * v_stride + at); });
      }
    }
  }

  void kv_copy_pages(const KvLayer& kv, std::span<const int32_t> src, std::span<const int32_t> dst) override {
    for (size_t i = 0; i < src.size(); ++i) {
      for (int h = 0; h < kv.n_kv_heads; ++h) {
        std::memcpy(kv.k_page(h, dst[i]), kv.k_page(h, src[i]), kv.k_page_bytes());
        std::memcpy(kv.v_page(h, dst[i]), kv.v_page(h, src[i]), kv.v_page_bytes());
      }
    }
  }

  void attention(const AttentionArgs& args) override {
    if (on_attention_) on_attention_();
    for (size_t s = 0; s + 1 < args.q_indptr.size(); ++s) {
      const int32_t* pages = args.page_indices.data() + args.page_indptr[s];
      for (int32_t r = args.q_indptr[s]; r < args.q_indptr[s + 1]; ++r) attend_row(args, pages, r);
    }
  }

  void add(float* y, int64_t y_stride, const float* x, int64_t x_stride, int64_t n_rows, int64_t dim) override {
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t i = 0; i < dim; ++i) y[r * y_stride + i] += x[r * x_stride + i];
    }
  }

  void softcap(float* x, int64_t n, float cap) override {
    for (int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
  }

 private:
  static void attend_row(const AttentionArgs& args, const int32_t* pages, int32_t r) {
    const KvLayer& kv = args.kv;
    const int position = args.positions[static_cast<size_t>(r)];
    const int first = args.window > 0 && position + 1 > args.window ? position + 1 - args.window : 0;
    const int n_keys = position - first + 1;
    std::vector<double> weights(static_cast<size_t>(n_keys));
    for (int h = 0; h < args.n_heads; ++h) {
      const int kv_head = h / (args.n_heads / kv.n_kv_heads);
      const float* q = args.q + r * args.q_stride + int64_t{h} * kv.head_dim;
      double top = args.sinks == nullptr ? -std::numeric_limits<double>::infinity() : args.sinks[h];
      for (int t = first; t <= position; ++t) {
        const std::byte* page = kv.k_page(kv_head, pages[t / kv.page_size]);
        double score = 0;
        for (int c = 0; c < kv.head_dim; ++c) {
          score += static_cast<double>(q[c]) * read(true, kv.k_format, page, t % kv.page_size, c, kv.head_dim);
        }
        score *= args.scale;
        if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
        weights[static_cast<size_t>(t - first)] = score;
        if (score > top || std::isnan(score)) top = score;
      }
      double sum = args.sinks == nullptr ? 0 : std::exp(args.sinks[h] - top);
      for (double& weight : weights) {
        weight = std::exp(weight - top);
        sum += weight;
      }
      for (int c = 0; c < kv.head_dim; ++c) {
        double value = 0;
        for (int t = first; t <= position; ++t) {
          const std::byte* page = kv.v_page(kv_head, pages[t / kv.page_size]);
          value += weights[static_cast<size_t>(t - first)] *
                   read(false, kv.v_format, page, t % kv.page_size, c, kv.head_dim);
        }
        args.out[r * args.out_stride + int64_t{h} * kv.head_dim + c] = static_cast<float>(value / sum);
      }
    }
  }

  std::function<void()> on_attention_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(std::function<void()> on_attention) {
  return std::make_unique<ReferenceBackend>(std::move(on_attention));
}

}  // namespace loci::test
