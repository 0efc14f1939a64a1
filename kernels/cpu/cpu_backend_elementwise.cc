// CpuBackend: norm, rope, residual add, soft cap. Rows, or pieces of rows, are dealt to the threads; small calls stay
// on the calling thread.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace loci::cpu {
namespace {

// Elements that a thread should get at least: below this, waking it costs more than it saves.
constexpr int64_t kMinElementsPerThread = 16384;

int useful_threads(int64_t n_elements, int n_threads) {
  return static_cast<int>(std::clamp<int64_t>(n_elements / kMinElementsPerThread, 1, n_threads));
}

}  // namespace

void CpuBackend::rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t n_rows,
                          int n_groups, int64_t dim, float* out, int64_t out_stride) {
  const AttentionKernels& kernels = *kernels_.attention;
  const int n_threads = useful_threads(n_rows * n_groups * dim, threads_for(n_rows));
  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_rows * n_groups);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / n_groups, group = i % n_groups;
      kernels.rms_norm_row(x + row * x_stride + group * dim, weight, eps, dim, out + row * out_stride + group * dim);
    }
  });
}

void CpuBackend::rope(float* x, int64_t stride, int64_t n_rows, int n_heads, int head_dim, const RopeAngles& angles,
                      RopePairing pairing) {
  const AttentionKernels& kernels = *kernels_.attention;
  const int n_rot = angles.n_rot;
  const int64_t half = n_rot / 2;
  LOCI_CHECK(n_rot >= 0 && n_rot % 2 == 0 && n_rot <= head_dim, "n_rot ", n_rot, ", head dim ", head_dim);
  LOCI_CHECK(static_cast<int64_t>(angles.cos.size()) >= n_rows * half &&
                 static_cast<int64_t>(angles.sin.size()) >= n_rows * half,
             angles.cos.size(), " angles for ", n_rows, " rows of ", half);
  const auto rotate = pairing == RopePairing::kAdjacent ? kernels.rope_adjacent : kernels.rope_half_split;
  const int n_threads = useful_threads(n_rows * n_heads * n_rot, threads_for(n_rows));
  pool_->run(n_threads, [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_rows * n_heads);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / n_heads, head = i % n_heads;
      rotate(x + row * stride + head * head_dim, angles.cos.data() + row * half, angles.sin.data() + row * half, n_rot);
    }
  });
}

void CpuBackend::add(float* y, int64_t y_stride, const float* x, int64_t x_stride, int64_t n_rows, int64_t dim) {
  const AttentionKernels& kernels = *kernels_.attention;
  pool_->run(useful_threads(n_rows * dim, threads_for(n_rows)), [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_rows);
    for (int64_t row = begin; row < end; ++row) kernels.add_row(y + row * y_stride, x + row * x_stride, dim);
  });
}

void CpuBackend::softcap(float* x, int64_t n, float cap) {
  const AttentionKernels& kernels = *kernels_.attention;
  pool_->run(useful_threads(n, n_threads_batch_), [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n);
    kernels.softcap_row(x + begin, end - begin, cap);
  });
}

}  // namespace loci::cpu
