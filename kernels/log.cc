#include "kernels/log.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

namespace loci {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_mutex;
std::unique_ptr<std::FILE, FileCloser> g_file;  // guarded by g_mutex

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void set_log_file(const std::string& path) {
  std::unique_ptr<std::FILE, FileCloser> file;
  if (!path.empty()) {
    file.reset(std::fopen(path.c_str(), "w"));
    if (!file) fail(ErrorKind::kInvalidInput, "--log-file ", path, ": cannot be opened for writing");
  }
  const std::lock_guard lock(g_mutex);
  g_file = std::move(file);
}

void log_line(LogLevel level, const std::string& message) {
  if (level > g_level) return;
  const char* prefix = level == LogLevel::kError ? "error: " : level == LogLevel::kWarn ? "warning: " : "";
  const std::lock_guard lock(g_mutex);
  std::fprintf(stderr, "%s%s\n", prefix, message.c_str());
  std::fflush(stderr);
  if (g_file) {
    std::fprintf(g_file.get(), "%s%s\n", prefix, message.c_str());
    std::fflush(g_file.get());
  }
}

}  // namespace loci
