// MappedFile: the bytes of a regular file, read-only, mapped or (without mmap) read into memory.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace loci::gguf {

// A file that another process shortens while it is mapped raises SIGBUS on access: the engine assumes that model files
// are not changed in place (docs/gguf.md).
class MappedFile {
 public:
  // Throws Error "path: reason": not found, no permission, a directory, not a regular file, empty.
  static MappedFile open(const std::string& path, bool use_mmap = true);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Drops the pages of `range` from this process, and its neighbours within 64 KiB, which the kernel maps along with
  // them; the next access reads them from the file again. Without mmap it does nothing. May be called from several
  // threads at once. REQUIRES: range lies within bytes().
  void release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::byte* data, size_t size, bool mapped) : data_(data), size_(size), mapped_(mapped) {}

  std::byte* data_ = nullptr;  // page-aligned
  size_t size_ = 0;
  bool mapped_ = false;  // false: anonymous memory that holds a copy
};

}  // namespace loci::gguf
