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
  // Copies bytes() from `offset` on, without bringing them into this process's memory as touching them does: a page
  // fault maps up to 2 MiB. Throws Error when the file cannot be read or has shrunk.  REQUIRES: they lie in bytes().
  void read(size_t offset, std::span<std::byte> out) const;
  // Drops the pages of `range` from this process, and its neighbours within 2 MiB, which the kernel may map along with
  // them; the next access reads them from the file again. Without mmap it does nothing. May be called from several
  // threads at once. REQUIRES: range lies within bytes().
  void release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::string path, int fd, std::byte* data, size_t size)
      : path_(std::move(path)), fd_(fd), data_(data), size_(size) {}

  std::string path_;
  int fd_ = -1;                // of the mapped file; -1: data_ is anonymous memory that holds a copy
  std::byte* data_ = nullptr;  // page-aligned
  size_t size_ = 0;
};

}  // namespace loci::gguf
