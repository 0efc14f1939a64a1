// Backend: the operations a decoder needs from a device. The contract of the CPU and the CUDA implementation.
//
// Promise kept by every implementation: the result of a row depends on that row's own inputs alone: not on the
// other rows of the call, the number of threads, or how the rows were cut into calls. Reduction orders are fixed
// and written down in docs/numerics.md.
//
// All activations are f32, row-major, `stride` in elements between rows. Nothing here throws after prepare():
// shapes were checked when the model was loaded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/kv_format/kv_layer.h"
#include "kernels/tensor.h"
#include "kernels/thread_placement.h"

namespace loci {

// A weight matrix in the device's own layout. Made by Backend::prepare, owned by the model.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual int64_t rows() const = 0;       // outputs N
  virtual int64_t cols() const = 0;       // inputs K
  virtual size_t bytes() const = 0;       // memory it holds (0 when it reads the mapped file)
  virtual bool reads_source() const = 0;  // true: the TensorView given to prepare() must stay valid
};

constexpr int kOutputGroup = 16;

// One output of matmul: out[r, 0..N) = W x[r] (+ bias) (+ what out held, when accumulate).
struct MatmulOut {
  const PackedWeight* weight = nullptr;
  const float* bias = nullptr;  // [N] or nullptr
  float* out = nullptr;         // [n_rows, N]
  int64_t out_stride = 0;
  bool accumulate = false;  // residual add, after the bias
  // Not empty: only these groups of kOutputGroup outputs, ascending; the others of `out` stay as they are.
  std::span<const int32_t> groups = {};
};

// Told about bytes of the source that prepare() will not read again, piece by piece. Called from several threads at
// once; must not throw.
using SourceRead = std::function<void(std::span<const std::byte> bytes)>;

enum class Activation { kSilu, kGeluTanh };

// Rotation angles of one step, shared by all layers with the same rope parameters.
//   cos, sin  [n_rows, n_rot / 2]
struct RopeAngles {
  std::vector<float> cos, sin;
  int n_rot = 0;
};
enum class RopePairing { kAdjacent /* 2i, 2i+1 */, kHalfSplit /* i, i + n_rot/2 */ };

// Attention of a ragged batch over paged K/V. Sequence s owns rows q_indptr[s]..q_indptr[s+1) and pages
// page_indices[page_indptr[s]..page_indptr[s+1]); token t of the sequence lies in its page t / page_size, slot
// t % page_size. A row at position p sees keys 0..p, or p - window + 1 .. p when window > 0; a page of which no row of
// the sequence sees a key may be gone (-1).
struct AttentionArgs {
  // Calls with the same number are of one batch (0: of none): q_indptr, positions and page lists, at the same
  // addresses, hold what they held in the first of them, so that what follows from these alone may be kept from call to
  // call. A call for the last rows of the batch alone has fewer positions, never other ones.
  uint64_t batch_id = 0;
  const float* q = nullptr;  // [n_rows, n_heads, head_dim], after rope
  int64_t q_stride = 0;
  float* out = nullptr;  // [n_rows, n_heads, head_dim]
  int64_t out_stride = 0;
  KvLayer kv;
  std::span<const int32_t> q_indptr;      // [n_seqs + 1]
  std::span<const int32_t> page_indptr;   // [n_seqs + 1]
  std::span<const int32_t> page_indices;  // physical page ids
  std::span<const int32_t> positions;     // [n_rows]
  int n_heads = 0;
  float scale = 0;               // multiplies q·k
  float softcap = 0;             // > 0: c * tanh(score / c)
  int window = 0;                // > 0: sliding window
  const float* sinks = nullptr;  // [n_heads] one extra logit per head in the softmax denominator, or nullptr
};

// Size of a huge page: allocate_sparse() and use_whole() go by pieces of it.
inline constexpr size_t kHugePiece = size_t{2} << 20;

class Backend {
 public:
  virtual ~Backend() = default;

  // "CPU avx512vnni, 2 threads".
  virtual std::string describe() const = 0;
  // Threads used by calls with one row per sequence (decode) and with more (prefill).
  virtual void set_threads(int n_threads, int n_threads_batch) = 0;

  // While on, matrix products keep f32 activations whatever the configuration says: for the few rows whose rounding
  // reaches all later ones. A device without activation quantization has nothing to do.
  virtual void force_precise(bool on) { (void)on; }

  // These will come to prepare(), in this order: room is made for them in one piece. Not needed, but saves memory.
  virtual void expect(std::span<const TensorView* const> weights) { (void)weights; }

  // Converts a matrix to the device's layout. The source may be released afterwards unless reads_source(); `read`, if
  // any, hears of all of it by then. Throws Error(kUnsupported) naming the tensor when its type cannot be computed
  // with.
  virtual std::unique_ptr<PackedWeight> prepare(const TensorView& weight, const SourceRead& read = {}) = 0;

  // Keeps the memory of everything prepared so far out of swap: 0, or errno.
  [[nodiscard]] virtual int lock_weights() { return 0; }

  // Memory for K/V pages and activations: zeroed, aligned to 64 bytes at least, huge pages where available.
  // Throws Error(kOutOfMemory) with the size.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes) = 0;
  // The same on small pages, of which only those that are touched take memory; from kHugePiece on aligned to it, and
  // its end too. use_whole() asks for huge pages where most of a range is or will be in use; its content stays.
  // REQUIRES: a range of whole pieces of such memory.
  virtual std::shared_ptr<std::byte> allocate_sparse(size_t bytes) { return allocate(bytes); }
  virtual void use_whole(std::byte* begin, size_t bytes) { (void)begin, (void)bytes; }

  // out[r] = scale * table[ids[r]], dequantized.  REQUIRES: 0 <= ids[r] < table.n_rows().
  virtual void embed(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
                     int64_t out_stride) = 0;
  // The same bits from the table's packed form: with a tied output head there is no other.
  virtual void embed(const PackedWeight& table, std::span<const int32_t> ids, float scale, float* out,
                     int64_t out_stride) = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight, for n_groups groups of `dim` adjacent values in each row
  // (n_groups = 1: a whole row; n_groups = n_heads: per-head norm). out may be x.
  virtual void rms_norm(const float* x, int64_t x_stride, const float* weight, float eps, int64_t n_rows, int n_groups,
                        int64_t dim, float* out, int64_t out_stride) = 0;

  // All outputs read the same input rows, which are quantized once where the weight types want it.
  virtual void matmul(std::span<const MatmulOut> outs, const float* x, int64_t x_stride, int64_t n_rows) = 0;

  // out[r] = act(gate x[r]) * (up x[r]): the gated half of a feed-forward block.  out [n_rows, gate.rows()].
  virtual void matmul_gated(const PackedWeight& gate, const PackedWeight& up, Activation act, const float* x,
                            int64_t x_stride, int64_t n_rows, float* out, int64_t out_stride) = 0;

  // Rotates n_heads heads of head_dim in each row in place; elements past n_rot stay.
  virtual void rope(float* x, int64_t stride, int64_t n_rows, int n_heads, int head_dim, const RopeAngles& angles,
                    RopePairing pairing) = 0;

  // Writes one token's K and V per row into its slot: slots[r] = page * page_size + offset.
  //   k, v  [n_rows, n_kv_heads, head_dim]
  virtual void kv_store(const KvLayer& kv, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                        std::span<const int64_t> slots) = 0;
  // Copies whole pages, all heads, K and V: dst[i] = src[i].
  virtual void kv_copy_pages(const KvLayer& kv, std::span<const int32_t> src, std::span<const int32_t> dst) = 0;

  virtual void attention(const AttentionArgs& args) = 0;
  // Bytes of K and V that attention() has read so far, each as often as it went through memory: pages that several
  // sequences of a call begin with count once.
  virtual int64_t kv_bytes_read() const { return 0; }

  // y += x, element by element.
  virtual void add(float* y, int64_t y_stride, const float* x, int64_t x_stride, int64_t n_rows, int64_t dim) = 0;

  // x = cap * tanh(x / cap).
  virtual void softcap(float* x, int64_t n, float cap) = 0;
};

struct CpuBackendConfig {
  int n_threads = 0;               // 0: physical cores this process may use (affinity mask, cgroup quota)
  int n_threads_batch = 0;         // 0: as n_threads
  bool precise = false;            // f32 activations: no activation quantization
  bool share_prefixes = true;      // attention reads the pages that sequences share once; never changes a result
  ThreadPlacement placement = {};  // of the threads for one row per sequence
  ThreadPlacement placement_batch = {};
};

// Throws Error(kInvalidInput) when LOCI_ISA names an instruction set that is unknown or that this CPU lacks.
std::unique_ptr<Backend> make_cpu_backend(const CpuBackendConfig& config);

}  // namespace loci
