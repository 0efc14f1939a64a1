#include "gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gguf/printable.h"
#include "kernels/error.h"

namespace loci::gguf {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string shown(const std::string& path) { return path.empty() ? "model path" : printable(path, 4096); }

[[noreturn]] void fail_open(const std::string& path, int error) {
  if (path.empty()) fail(ErrorKind::kInvalidInput, "model path: is empty");
  const std::string name = shown(path);
  if (error == ENOENT) {
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      fail(ErrorKind::kNotFound, name, ": symbolic link to a file that does not exist");
    }
    fail(ErrorKind::kNotFound, name, ": not found");
  }
  if (error == EACCES) fail(ErrorKind::kInvalidInput, name, ": no permission to read it");
  if (error == ELOOP) fail(ErrorKind::kInvalidInput, name, ": symbolic links form a loop");
  if (error == ENOTDIR) fail(ErrorKind::kNotFound, name, ": not found (a part of the path is not a directory)");
  fail(ErrorKind::kInvalidInput, name, ": cannot be opened: ", std::strerror(error));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a named pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device";
  if (S_ISSOCK(mode)) return "is a socket";
  return "is not a regular file";
}

void read_range(int fd, size_t offset, std::byte* data, size_t size, const std::string& path) {
  for (size_t done = 0; done < size;) {
    const size_t step = std::min<size_t>(size - done, size_t{1} << 30);
    const ssize_t got = ::pread(fd, data + done, step, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::kInvalidInput, shown(path), ": read error: ", std::strerror(errno));
    if (got == 0) {
      fail(ErrorKind::kInvalidInput, shown(path), ": file shrank while it was read: expected ", offset + size,
           " bytes, found ", offset + done);
    }
    done += static_cast<size_t>(got);
  }
}

}  // namespace

MappedFile MappedFile::open(const std::string& path, bool use_mmap) {
  if (path.find('\0') != std::string::npos) {
    fail(ErrorKind::kInvalidInput, shown(path), ": a path cannot hold a NUL byte");
  }
  // O_NONBLOCK: opening a named pipe that nobody writes to must not wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) fail_open(path, errno);
  Descriptor descriptor{fd};
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail_open(path, errno);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::kInvalidInput, shown(path), ": expected a regular file, but it ", kind_of(info.st_mode));
  }
  if (info.st_size == 0) fail(ErrorKind::kInvalidInput, shown(path), ": file is empty");

  const size_t size = static_cast<size_t>(info.st_size);
  const int flags = use_mmap ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  const int protection = use_mmap ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = ::mmap(nullptr, size, protection, flags, use_mmap ? fd : -1, 0);
  if (data == MAP_FAILED) {
    fail(ErrorKind::kOutOfMemory, shown(path), ": cannot ", use_mmap ? "map " : "allocate ", size,
         " bytes: ", std::strerror(errno));
  }
  MappedFile file(path, use_mmap ? std::exchange(descriptor.fd, -1) : -1, static_cast<std::byte*>(data), size);
  if (!use_mmap) read_range(fd, 0, file.data_, size, path);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::read(size_t offset, std::span<std::byte> out) const {
  if (fd_ >= 0) {
    read_range(fd_, offset, out.data(), out.size(), path_);
  } else {
    std::memcpy(out.data(), data_ + offset, out.size());
  }
}

void MappedFile::release(std::span<const std::byte> range) const {
  if (fd_ < 0 || range.empty()) return;  // dropped anonymous pages would read as zero
  // A fault maps the cached pages of a whole aligned window, which no later fault in it would drop again. Linux makes
  // it 64 KiB unless it was built or told otherwise, and never larger than this.
  constexpr uintptr_t kWindow = 2 << 20;
  const auto start = reinterpret_cast<uintptr_t>(range.data());
  const auto begin = reinterpret_cast<uintptr_t>(data_), end = begin + size_;
  const uintptr_t first = std::max(begin, start / kWindow * kWindow);
  const uintptr_t last = std::min(end, (start + range.size() + kWindow - 1) / kWindow * kWindow);
  // A hint: failure changes nothing.
  ::madvise(data_ + (first - begin), last - first, MADV_DONTNEED);
}

}  // namespace loci::gguf
