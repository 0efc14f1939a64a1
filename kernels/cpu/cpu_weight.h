// CpuWeight: a weight matrix as 16-row panels (panel_format.h), or, for types without a panel form, a view of the
// file that is dequantized block by block when it is used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/backend.h"
#include "kernels/cpu/huge_memory.h"
#include "kernels/cpu/panel_format.h"
#include "kernels/cpu/thread_pool.h"

namespace loci::cpu {

class CpuWeight final : public PackedWeight {
 public:
  int64_t rows() const override { return n_; }
  int64_t cols() const override { return k_; }
  size_t bytes() const override { return panels_ ? panel_bytes_ * static_cast<size_t>(n_panels()) : 0; }
  bool reads_source() const override { return !panels_; }

  int64_t n_panels() const { return (n_ + kPanelRows - 1) / kPanelRows; }
  bool has_panels() const { return panels_ != nullptr; }
  PanelType panel_type() const { return type_; }
  // True for block-quantized panels: they can be multiplied with int8 activations.
  bool is_quantized() const { return has_panels() && type_ < kPanelF32; }
  size_t panel_stride() const { return panel_bytes_; }  // bytes of one panel
  const uint8_t* panel(int64_t p) const { return reinterpret_cast<const uint8_t*>(panels_.get()) + p * panel_bytes_; }
  // Row `row` in f32, the same bits as dequantize_row() of the file's.  REQUIRES: has_panels().
  void dequantize(int64_t row, float* out) const;
  // The tensor in the file; only for weights without panels.
  const TensorView& source() const { return source_; }

 private:
  friend std::unique_ptr<CpuWeight> pack_weight(const TensorView&, PanelArena&, ThreadPool&, int, const SourceRead&);
  int64_t n_ = 0, k_ = 0;
  DType source_type_ = DType::kF32;
  PanelType type_ = kPanelF32;
  size_t panel_bytes_ = 0;
  std::shared_ptr<std::byte> panels_;  // [n_panels][panel_bytes], or null
  TensorView source_;
};

// Panel form of a file type, if it has one.
std::optional<PanelType> panel_type_of(DType type);
// Bytes of one panel of K elements.
size_t panel_bytes(PanelType type, int64_t k);

// Bytes of all panels of a matrix; 0 if it has no panel form.
size_t packed_bytes(const TensorView& weight);

// Repacks a matrix on n_threads threads; `read`, if any, hears of every kReadPiece bytes or so of the source once they
// are done with. Throws Error(kUnsupported) naming the tensor if its type cannot be computed with, Error(kInvalidInput)
// if its shape is no matrix.
inline constexpr int64_t kReadPiece = 2 << 20;
std::unique_ptr<CpuWeight> pack_weight(const TensorView& weight, PanelArena& arena, ThreadPool& pool, int n_threads,
                                       const SourceRead& read);

}  // namespace loci::cpu
