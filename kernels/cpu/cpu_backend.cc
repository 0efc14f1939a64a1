#include "kernels/cpu/cpu_backend.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/log.h"
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
      prefetch_bytes_(weight_prefetch_bytes()),
      precise_(config.precise),
      placement_(config.placement),
      placement_batch_(config.placement_batch),
      machine_(read_machine()) {
  set_threads(config.n_threads, config.n_threads_batch);
}

std::string CpuBackend::describe() const {
  std::string text = str("CPU ", kernels_.name, ", ", n_threads_, n_threads_ == 1 ? " thread" : " threads");
  if (n_threads_batch_ != n_threads_) text += str(" (", n_threads_batch_, " for batches)");
  return text;
}

void CpuBackend::set_threads(int n_threads, int n_threads_batch) {
  const std::string suffix = placement_batch_.cpus == placement_.cpus ? "" : "-batch";
  n_threads_ = checked_threads("number of threads", n_threads);
  if (n_threads_ == 0) n_threads_ = default_thread_count(placement_cpus(placement_, machine_));
  n_threads_batch_ = checked_threads("number of batch threads", n_threads_batch);
  if (n_threads_batch_ == 0) {
    const bool as_other = n_threads > 0 || suffix.empty();
    n_threads_batch_ = as_other ? n_threads_ : default_thread_count(placement_cpus(placement_batch_, machine_, suffix));
  }
  const int needed = std::max(n_threads_, n_threads_batch_);
  const auto make_mode = [&](const ThreadPlacement& placement, int n, const std::string& flag_suffix) {
    for (const std::string& warning : plan_placement(placement, machine_, n, flag_suffix).warnings) log_warn(warning);
    return plan_placement(placement, machine_, needed, flag_suffix).mode;
  };
  std::vector<PoolMode> modes;
  if (placement_batch_ == placement_) {
    modes.push_back(make_mode(placement_, needed, ""));
  } else {
    modes.push_back(make_mode(placement_, n_threads_, ""));
    modes.push_back(make_mode(placement_batch_, n_threads_batch_, suffix));
    // Threads that one of them binds have to be freed by the other.
    for (size_t i = 0; i < 2; ++i) {
      if (modes[i].cpus.empty() && !modes[1 - i].cpus.empty()) {
        modes[i].cpus.assign(static_cast<size_t>(needed), machine_.usable);
      }
    }
  }
  if (pool_ && pool_->size() == needed && pool_->modes() == modes) return;
  pool_.reset();  // gives the calling thread back what it had
  batch_mode_ = modes.size() - 1;
  pool_ = std::make_unique<ThreadPool>(needed, std::move(modes));
}

void CpuBackend::expect(std::span<const TensorView* const> weights) {
  size_t bytes = 0;
  for (const TensorView* weight : weights) bytes += PanelArena::rounded(packed_bytes(*weight));
  arena_.expect(bytes);
}

std::unique_ptr<PackedWeight> CpuBackend::prepare(const TensorView& weight, const SourceRead& read) {
  pool_->set_mode(batch_mode_);
  return pack_weight(weight, arena_, *pool_, n_threads_batch_, read);
}

std::shared_ptr<std::byte> CpuBackend::allocate(size_t bytes) { return allocate_huge(bytes); }
std::shared_ptr<std::byte> CpuBackend::allocate_sparse(size_t bytes) { return allocate_small(bytes); }

template <typename Write>
void CpuBackend::embed_rows(std::span<const int32_t> ids, int64_t dim, float scale, float* out, int64_t out_stride,
                            Write&& write) {
  const int64_t n_rows = static_cast<int64_t>(ids.size());
  // A row costs a microsecond or two: waking threads pays from some dozens of rows.
  const int n_threads = static_cast<int>(std::clamp<int64_t>(n_rows / 16, 1, n_threads_batch_));
  pool_->set_mode(n_rows > 1 ? batch_mode_ : 0);
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
