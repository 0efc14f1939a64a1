#include "main/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace loci::cli {
namespace {

size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

// Keeps the first n bytes, in whole UTF-8 characters.
void cut(std::string& line, size_t n) {
  if (line.size() <= n) return;
  while (n > 0 && (static_cast<unsigned char>(line[n]) & 0xc0) == 0x80) --n;
  line.resize(n);
}

}  // namespace

std::string bytes_text(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, std::strcmp(unit, "B") == 0 ? "%.0f %s" : "%.1f %s", bytes, unit);
  return text;
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), active_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::clear() {
  if (active_ && last_drawn_s_ >= 0) std::fputs("\r\033[K", stderr);
  last_drawn_s_ = -1;
}

void ProgressBar::update(double done, double total, const std::string& detail) {
  if (!active_ || total <= 0) return;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (last_drawn_s_ >= 0 && now - last_drawn_s_ < 0.05 && done < total) return;
  last_drawn_s_ = now;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * std::clamp(done / total, 0.0, 1.0));
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f%%", 100 * done / total);
  std::string line = label_ + " [" + std::string(static_cast<size_t>(filled), '=') +
                     std::string(static_cast<size_t>(kWidth - filled), ' ') + "] " + percent + " " + detail;
  cut(line, terminal_columns() - 1);  // a line that wraps could not be drawn over
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
}

}  // namespace loci::cli
