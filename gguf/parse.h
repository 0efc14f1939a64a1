// parse_part: one GGUF file's bytes to metadata and a checked tensor table. gguf.cc puts parts together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/metadata.h"
#include "kernels/tensor.h"

namespace loci::gguf {

struct Part {
  uint32_t version = 0;
  Metadata metadata;                  // string arrays are views into the bytes
  std::vector<TensorView> tensors;    // in file order; each lies whole within the bytes, none overlap
  std::vector<std::string> oddities;  // harmless irregularities
};

// Reads header, metadata pairs and tensor infos of `bytes`, which must outlive the result. `file` names it in messages.
// Any input is safe: counts, lengths, products and offsets are checked before use, nothing recurses, and memory stays
// within a small multiple of the input's size. Throws Error.
Part parse_part(std::span<const std::byte> bytes, const std::string& file);

}  // namespace loci::gguf
