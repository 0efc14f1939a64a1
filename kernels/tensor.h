// TensorView: where a tensor's bytes lie, their type and shape. Owns nothing.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/dtype.h"

namespace loci {

// A dense tensor in the file's order: ne[0] is the row length (fastest), rows are contiguous.
// A matrix written W[out, in] has ne = {in, out, 1, 1}.
struct TensorView {
  const std::byte* data = nullptr;
  DType type = DType::kF32;
  std::array<int64_t, 4> ne{1, 1, 1, 1};
  std::string name;  // for messages

  int64_t row_length() const { return ne[0]; }
  int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }
  int64_t n_elements() const { return ne[0] * n_rows(); }
  int64_t row_stride_bytes() const { return row_bytes(type, ne[0]); }
  int64_t n_bytes() const { return row_stride_bytes() * n_rows(); }
  const std::byte* row(int64_t i) const { return data + i * row_stride_bytes(); }
};

}  // namespace loci
