#include "kernels/cpu/cpu_weight.h"

#include <algorithm>

#include "kernels/cpu/repack.h"
#include "kernels/error.h"
#include "kernels/quant/quant.h"

namespace loci::cpu {

std::optional<PanelType> panel_type_of(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return kPanelQ4_0;
    case DType::kQ4_1:
      return kPanelQ4_1;
    case DType::kQ5_0:
      return kPanelQ5_0;
    case DType::kQ5_1:
      return kPanelQ5_1;
    case DType::kQ8_0:
      return kPanelQ8_0;
    case DType::kIQ4_NL:
      return kPanelIQ4_NL;
    case DType::kMXFP4:
      return kPanelMXFP4;
    case DType::kQ2_K:
      return kPanelQ2_K;
    case DType::kQ3_K:
      return kPanelQ3_K;
    case DType::kQ4_K:
      return kPanelQ4_K;
    case DType::kQ5_K:
      return kPanelQ5_K;
    case DType::kQ6_K:
      return kPanelQ6_K;
    case DType::kF32:
      return kPanelF32;
    case DType::kF16:
      return kPanelF16;
    case DType::kBF16:
      return kPanelBF16;
    default:
      return std::nullopt;
  }
}

size_t panel_bytes(PanelType type, int64_t k) {
  const size_t n = static_cast<size_t>(k);
  switch (type) {
    case kPanelQ4_0:
    case kPanelIQ4_NL:
    case kPanelMXFP4:
      return n / 32 * 288;
    case kPanelQ4_1:
      return n / 32 * 320;
    case kPanelQ5_0:
      return n / 32 * 352;
    case kPanelQ5_1:
      return n / 32 * 384;
    case kPanelQ8_0:
      return n / 32 * 544;
    case kPanelQ2_K:
      return n / 256 * 1344;
    case kPanelQ3_K:
      return n / 256 * 1760;
    case kPanelQ4_K:
      return n / 256 * 2304;
    case kPanelQ5_K:
      return n / 256 * 2816;
    case kPanelQ6_K:
      return n / 256 * 3360;
    case kPanelF32:
      return n * kPanelRows * 4;
    case kPanelF16:
    case kPanelBF16:
      return n * kPanelRows * 2;
    case kPanelTypeCount:
      break;
  }
  return 0;
}

size_t packed_bytes(const TensorView& weight) {
  const std::optional<PanelType> type = panel_type_of(weight.type);
  if (!type) return 0;
  const int64_t n_panels = (weight.n_rows() + kPanelRows - 1) / kPanelRows;
  return panel_bytes(*type, weight.row_length()) * static_cast<size_t>(n_panels);
}

void CpuWeight::dequantize(int64_t row, float* out) const {
  // Through the file's own blocks, some at a time: no second set of dequantizers whose rounding could differ.
  constexpr int64_t kElements = 1024;
  std::byte blocks[kElements * sizeof(float)];
  for (int64_t first = 0; first < k_; first += kElements) {
    const int64_t n = std::min(kElements, k_ - first);
    restore_row(type_, panel(row / kPanelRows), static_cast<int>(row % kPanelRows), first, n,
                reinterpret_cast<uint8_t*>(blocks));
    dequantize_row(source_type_, blocks, out + first, n);
  }
}

std::unique_ptr<CpuWeight> pack_weight(const TensorView& weight, PanelArena& arena, ThreadPool& pool, int n_threads,
                                       const SourceRead& read) {
  if (!traits(weight.type).can_dequantize) {
    fail(ErrorKind::kUnsupported, "tensor ", weight.name, ": type ", name(weight.type), " cannot be computed with");
  }
  const int64_t k = weight.row_length(), n = weight.n_rows();
  if (k < 1 || n < 1 || k % traits(weight.type).block_elements != 0) {
    fail(ErrorKind::kInvalidInput, "tensor ", weight.name, ": expected a matrix with rows of whole ", name(weight.type),
         " blocks (", traits(weight.type).block_elements, " elements), found [", k, ", ", n, "]");
  }
  auto packed = std::make_unique<CpuWeight>();
  packed->n_ = n;
  packed->k_ = k;
  const std::optional<PanelType> type = panel_type_of(weight.type);
  if (!type) {
    packed->source_ = weight;
    return packed;
  }
  packed->source_type_ = weight.type;
  packed->type_ = *type;
  packed->panel_bytes_ = panel_bytes(*type, k);
  const int64_t n_panels = packed->n_panels();
  packed->panels_ = arena.allocate(packed_bytes(weight));
  std::byte* const panels = packed->panels_.get();
  const size_t stride = packed->panel_bytes_;
  pool.run(n_threads, [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(n_panels);
    int64_t n_told = begin * kPanelRows;  // rows before this one were told of
    for (int64_t p = begin; p < end; ++p) {
      const int n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, n - p * kPanelRows));
      const uint8_t* rows[kPanelRows];
      for (int r = 0; r < n_rows; ++r) rows[r] = reinterpret_cast<const uint8_t*>(weight.row(p * kPanelRows + r));
      auto* const panel = reinterpret_cast<uint8_t*>(panels + p * stride);
      if (n_rows < kPanelRows || !repack_full_panel(*type, rows, k, panel)) {
        repack_panel(*type, rows, n_rows, k, panel);
      }
      const int64_t n_done = p * kPanelRows + n_rows;
      const int64_t bytes = (n_done - n_told) * weight.row_stride_bytes();
      if (read && (bytes >= kReadPiece || p + 1 == end)) {
        read({weight.row(n_told), static_cast<size_t>(bytes)});
        n_told = n_done;
      }
    }
  });
  return packed;
}

}  // namespace loci::cpu
