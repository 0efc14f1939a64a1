#include "main/bench_work.h"

#include <algorithm>

#include "engine/kv/kv_manager.h"
#include "gguf/gguf.h"

namespace loci::cli {

double BenchWork::mac_seconds(const cpu::Roofline& roofline) const {
  const double bf16_rate = roofline.bf16_macs > 0 ? roofline.bf16_macs : roofline.f32_macs;
  return int8_macs / roofline.int8_macs + bf16_macs / bf16_rate + f32_macs / roofline.f32_macs;
}

void BenchWorkCounter::add_pass(const std::vector<BenchRows>& sequences, int64_t n_logit_rows) {
  const auto add_matrices = [&](const MatrixWork& matrices, int64_t n_rows) {
    const int64_t int8_macs = config_.precise ? 0 : matrices.quantized_macs;
    work_.bytes += static_cast<double>(matrices.bytes);
    work_.int8_macs += static_cast<double>(int8_macs) * static_cast<double>(n_rows);
    work_.f32_macs += static_cast<double>(matrices.macs - int8_macs) * static_cast<double>(n_rows);
  };
  int64_t n_rows = 0;
  for (const BenchRows& rows : sequences) n_rows += rows.n;
  add_matrices(matrices_.layers, n_rows);
  if (n_logit_rows > 0) add_matrices(matrices_.head, n_logit_rows);

  for (const LayerSpec& layer : arch_.layers) {
    const KvConfig& kv = config_.kv;
    const auto token_bytes = [&](KvFormat format) {
      return static_cast<double>(kv_page_bytes(format, kv.page_size, layer.head_dim)) / kv.page_size;
    };
    const auto add_macs = [&](KvFormat format, double macs) {
      const bool is_float = format == KvFormat::kF32 || format == KvFormat::kF16;
      (is_float ? work_.f32_macs : format == KvFormat::kBF16 ? work_.bf16_macs : work_.int8_macs) += macs;
    };
    double n_tokens_read = 0, n_pairs = 0;  // K/V of tokens; rows times the tokens each sees
    for (const BenchRows& rows : sequences) {
      const int64_t end = rows.first + rows.n;
      n_tokens_read += static_cast<double>(layer.window > 0 ? std::min(end, rows.n - 1 + layer.window) : end);
      for (int64_t position = rows.first; position < end; ++position) {
        n_pairs += static_cast<double>(layer.window > 0 ? std::min<int64_t>(position + 1, layer.window) : position + 1);
      }
    }
    work_.bytes += n_tokens_read * layer.n_kv_heads * (token_bytes(kv.k_format) + token_bytes(kv.v_format));
    add_macs(kv.k_format, n_pairs * layer.n_heads * layer.head_dim);
    add_macs(kv.v_format, n_pairs * layer.n_heads * layer.head_dim);
  }
}

void BenchWorkCounter::add_prefill(int64_t first, int64_t n) {
  for (int64_t done = 0; done < n; done += config_.n_ubatch) {
    const int64_t part = std::min<int64_t>(n - done, config_.n_ubatch);
    add_pass({{first + done, part}}, done + part == n ? 1 : 0);
  }
}

int64_t kv_pool_bytes(const EngineConfig& config, int64_t n_tokens) {
  const gguf::File file = gguf::File::open(config.model_path);
  const int64_t n_pages = (n_tokens + config.kv.page_size - 1) / config.kv.page_size;
  return pool_bytes(kv_pool_needs(kv_layer_shapes(read_arch(file.metadata()), config.kv), config), n_pages);
}

}  // namespace loci::cli
