#include "engine/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace loci {
namespace {

// A single number in a file; -1 when there is none ("max" included).
int64_t number_in(const char* path) {
  std::ifstream in(path);
  int64_t value = -1;
  return in >> value ? value : -1;
}

int64_t field_in(const char* path, const std::string& name) {
  std::ifstream in(path);
  for (std::string key; in >> key;) {
    int64_t value = 0;
    if (key == name && in >> value) return value;
  }
  return -1;
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t available_kib = field_in("/proc/meminfo", "MemAvailable:");
  int64_t available = available_kib < 0 ? -1 : available_kib * 1024;
  int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  int64_t used = number_in("/sys/fs/cgroup/memory.current");
  int64_t reclaimable = field_in("/sys/fs/cgroup/memory.stat", "inactive_file");
  if (limit < 0) {
    limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    used = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
    reclaimable = field_in("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file");
  }
  if (limit >= 0 && used >= 0) {
    const int64_t left = std::max<int64_t>(0, limit - used + std::max<int64_t>(0, reclaimable));
    available = available < 0 ? left : std::min(available, left);
  }
  return available;
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

std::string bytes_text(int64_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.2f GiB", value / (1 << 30));
  } else if (bytes < int64_t{100} << 10) {
    std::snprintf(text, sizeof text, "%.1f KiB", value / (1 << 10));
  } else {
    std::snprintf(text, sizeof text, "%.1f MiB", value / (1 << 20));
  }
  return text;
}

}  // namespace loci
