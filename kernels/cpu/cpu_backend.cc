#include "kernels/cpu/cpu_backend.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/quant/quant.h"

namespace loci {
namespace cpu {
namespace {

constexpr int kMaxThreads = 1024;

int checked_threads(const char* what, int n_threads) {
  if (n_threads < 0 || n_threads > kMaxThreads) {
    fail(ErrorKind::kInvalidInput, what, ": expected 0 (automatic) to ", kMaxThreads, ", found ", n_threads);
  }
  return n_threads;
}

}  // namespace

CpuBackend::CpuBackend(const CpuBackendConfig& config)
    : kernels_(choose_kernels()),
      always_precise_(config.precise),
      share_prefixes_(config.share_prefixes),
      precise_(config.precise) {
  set_threads(config.n_threads, config.n_threads_batch);
}

std::string CpuBackend::describe() const {
  std::string text = str("CPU ", kernels_.name, ", ", n_threads_, n_threads_ == 1 ? " thread" : " threads");
  if (n_threads_batch_ != n_threads_) text += str(" (", n_threads_batch_, " for batches)");
  return text;
}

void CpuBackend::set_threads(int n_threads, int n_threads_batch) {
  n_threads_ = checked_threads("number of threads", n_threads);
  if (n_threads_ == 0) n_threads_ = default_thread_count();
  n_threads_batch_ = checked_threads("number of batch threads", n_threads_batch);
  if (n_threads_batch_ == 0) n_threads_batch_ = n_threads_;
  const int needed = std::max(n_threads_, n_threads_batch_);
  if (!pool_ || pool_->size() != needed) pool_ = std::make_unique<ThreadPool>(needed);
}

std::unique_ptr<PackedWeight> CpuBackend::prepare(const TensorView& weight, const SourceRead& read) {
  return pack_weight(weight, arena_, *pool_, n_threads_batch_, read);
}

std::shared_ptr<std::byte> CpuBackend::allocate(size_t bytes) { return allocate_huge(bytes); }

template <typename Write>
void CpuBackend::embed_rows(std::span<const int32_t> ids, int64_t dim, float scale, float* out, int64_t out_stride,
                            Write&& write) {
  const int64_t n_rows = static_cast<int64_t>(ids.size());
  // A row costs a microsecond or two: waking threads pays from some dozens of rows.
  const int n_threads = static_cast<int>(std::clamp<int64_t>(n_rows / 16, 1, n_threads_batch_));
  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_rows);
    for (int64_t r = begin; r < end; ++r) {
      float* row = out + r * out_stride;
      write(ids[static_cast<size_t>(r)], row);
      if (scale != 1.0f) {
        for (int64_t i = 0; i < dim; ++i) row[i] *= scale;
      }
    }
  });
}

void CpuBackend::embed(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
                       int64_t out_stride) {
  const int64_t dim = table.row_length();
  for (const int32_t id : ids) LOCI_CHECK(id >= 0 && id < table.n_rows(), "token id ", id, " of ", table.n_rows());
  embed_rows(ids, dim, scale, out, out_stride,
             [&](int32_t id, float* row) { dequantize_row(table.type, table.row(id), row, dim); });
}

void CpuBackend::embed(const PackedWeight& table, std::span<const int32_t> ids, float scale, float* out,
                       int64_t out_stride) {
  const auto& weight = static_cast<const CpuWeight&>(table);
  if (!weight.has_panels()) return embed(weight.source(), ids, scale, out, out_stride);
  for (const int32_t id : ids) LOCI_CHECK(id >= 0 && id < weight.rows(), "token id ", id, " of ", weight.rows());
  embed_rows(ids, weight.cols(), scale, out, out_stride, [&](int32_t id, float* row) { weight.dequantize(id, row); });
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendConfig& config) {
  return std::make_unique<cpu::CpuBackend>(config);
}

}  // namespace loci
