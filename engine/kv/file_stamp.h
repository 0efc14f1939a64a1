// FileStamp: tells one state of a file from another, without reading it.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace loci {

struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

inline FileStamp stamp_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec};
}

// Nothing when there is no such file.
inline std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return stamp_of(info);
}

}  // namespace loci
