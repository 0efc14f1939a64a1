// CpuBackend: kernels/backend.h on the CPU. Partitions each operation over the thread pool and calls the row-level
// kernels of the chosen instruction set.
//   cpu_backend.cc            construction, memory, embed
//   cpu_weight.cc             prepare: panels of a weight matrix
//   cpu_backend_matmul.cc     matmul, matmul_gated
//   cpu_backend_attention.cc    attention, kv_store, kv_copy_pages
//   cpu_backend_elementwise.cc  rms_norm, rope, add, softcap
#pragma once
#include <memory>
#include <span>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/attention_workspace.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/huge_memory.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

namespace loci::cpu {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuBackendConfig& config);

  std::string describe() const override;
  void set_threads(int n_threads, int n_threads_batch) override;
  void force_precise(bool on) override { precise_ = always_precise_ || on; }
  void expect(std::span<const TensorView* const> weights) override;
  std::unique_ptr<PackedWeight> prepare(const TensorView& weight, const SourceRead& read) override;
  int lock_weights() override { return arena_.lock(); }
  std::shared_ptr<std::byte> allocate(size_t bytes) override;
  std::shared_ptr<std::byte> allocate_sparse(size_t bytes) override;
  void use_whole(std::byte* begin, size_t bytes) override { make_huge(begin, bytes); }
  void embed(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
             int64_t out_stride) override;
  void embed(const PackedWeight& table, std::span<const int32_t> ids, float scale, float* out,
             int64_t out_stride) override;

  void rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t n_rows, int n_groups,
                int64_t dim, float* out, int64_t out_stride) override;
  void matmul(std::span<const MatmulOut> outs, const float* x, int64_t x_stride, int64_t n_rows) override;
  void matmul_gated(const PackedWeight& gate, const PackedWeight& up, Activation act, const float* x, int64_t x_stride,
                    int64_t n_rows, float* out, int64_t out_stride) override;
  void rope(float* x, int64_t stride, int64_t n_rows, int n_heads, int head_dim, const RopeAngles& angles,
            RopePairing pairing) override;
  void kv_store(const KvLayer& kv, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                std::span<const int64_t> slots) override;
  void kv_copy_pages(const KvLayer& kv, std::span<const int32_t> src, std::span<const int32_t> dst) override;
  void attention(const AttentionArgs& args) override;
  void add(float* y, int64_t y_stride, const float* x, int64_t x_stride, int64_t n_rows, int64_t dim) override;
  void softcap(float* x, int64_t n, float cap) override;
  int64_t kv_bytes_read() const override { return kv_bytes_read_; }
  // Times that a batch's attention was cut into work, since the start: once for all layers that are cut alike.
  int64_t attention_plans_made() const { return attention_.plans_made; }

  const KernelTable& kernels() const { return kernels_; }

 private:
  // Calls write(id, out row) for every id and scales what it wrote.
  template <typename Write>
  void embed_rows(std::span<const int32_t> ids, int64_t dim, float scale, float* out, int64_t out_stride,
                  Write&& write);
  // Threads for an operation over n_rows rows; they are placed accordingly.
  int threads_for(int64_t n_rows) {
    pool_->set_mode(n_rows > 1 ? batch_mode_ : 0);
    return n_rows > 1 ? n_threads_batch_ : n_threads_;
  }

  const KernelTable& kernels_;
  const bool always_precise_;
  const bool share_prefixes_;
  const int64_t prefetch_bytes_;  // how far ahead decode fetches weights
  bool precise_;                  // products of quantized weights keep f32 activations
  int64_t kv_bytes_read_ = 0;
  int n_threads_ = 1;
  int n_threads_batch_ = 1;
  const ThreadPlacement placement_, placement_batch_;
  const Machine machine_;
  std::unique_ptr<ThreadPool> pool_;  // max of the two counts
  size_t batch_mode_ = 0;             // its mode for more than one row
  PanelArena arena_;                  // where prepare() puts panels
  ScratchBuffer tiles_;               // activation tiles of the matmul in progress
  AttentionWorkspace attention_;      // plan and per-thread memory of attention
};

}  // namespace loci::cpu
