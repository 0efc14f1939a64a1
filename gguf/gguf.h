// Reading GGUF files (v2, v3; single or split): metadata, tensor table, mapped data. Every count, length, offset,
// alignment and product is checked before use; errors name file, key or tensor, expectation and finding.
// The format: docs/gguf.md.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/metadata.h"
#include "kernels/tensor.h"

namespace loci::gguf {

struct OpenOptions {
  bool use_mmap = true;  // false: read the file into memory (--no-mmap)
};

// An open model: all parts of a split file mapped, tables checked.
class File {
 public:
  // `path`: a GGUF file or the first part of a split one, whose other parts lie beside it. Throws Error.
  static File open(const std::string& path, const OpenOptions& options = {});

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const;
  std::vector<std::string> part_paths() const;  // one, or all parts of a split model in order
  uint32_t version() const;
  const Metadata& metadata() const;  // of the first part
  std::span<const TensorView> tensors() const;
  const TensorView* find(std::string_view name) const;  // nullptr when absent
  int64_t total_bytes() const;                          // size of all parts on disk
  std::span<const std::string> oddities() const;        // harmless irregularities, for `inspect`
  // Copies out.size() bytes of a tensor from `first` on without touching them where they are mapped, which takes memory
  // for their surroundings too. Throws Error when the file cannot be read.  REQUIRES: they lie in the file.
  void read(const std::byte* first, std::span<std::byte> out) const;
  // Tells the kernel that the tensor, or bytes of one, is no longer needed in memory (it stays readable, from disk).
  // May be called from several threads at once.
  void release(const TensorView& tensor) const;
  void release(std::span<const std::byte> bytes) const;
  // The same for what lies before the tensors.
  void release_metadata() const;

 private:
  File();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace loci::gguf
