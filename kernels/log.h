// One-line logging to stderr (or a file), with levels. Answers never go through here: stdout is theirs.
#pragma once
#include <string>

#include "kernels/error.h"

namespace loci {

enum class LogLevel { kOutput = 0, kError = 1, kWarn = 2, kInfo = 3, kTrace = 4, kDebug = 5 };

void set_log_level(LogLevel level);  // messages above `level` are dropped; default kInfo
LogLevel log_level();
// Sends the log to `path` as well (empty: stderr alone). Throws Error if it cannot be opened.
void set_log_file(const std::string& path);
// Writes "message\n" (warnings and errors get a "warning: " / "error: " prefix). Thread-safe.
void log_line(LogLevel level, const std::string& message);

template <typename... Parts>
void log_info(Parts&&... parts) {
  if (log_level() >= LogLevel::kInfo) log_line(LogLevel::kInfo, str(std::forward<Parts>(parts)...));
}
template <typename... Parts>
void log_warn(Parts&&... parts) {
  if (log_level() >= LogLevel::kWarn) log_line(LogLevel::kWarn, str(std::forward<Parts>(parts)...));
}
template <typename... Parts>
void log_debug(Parts&&... parts) {
  if (log_level() >= LogLevel::kDebug) log_line(LogLevel::kDebug, str(std::forward<Parts>(parts)...));
}

}  // namespace loci
