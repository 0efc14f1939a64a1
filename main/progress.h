// What a person sees while waiting: a progress line on stderr, and sizes in words.
#pragma once
#include <string>

namespace loci::cli {

// "1.5 GiB", "12.3 MiB", "17 B".
std::string bytes_text(double bytes);

// A progress line on stderr: drawn only when stderr is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  void clear();  // takes the line off
  void update(double done, double total, const std::string& detail);

 private:
  std::string label_;
  bool active_;
  double last_drawn_s_ = -1;
};

}  // namespace loci::cli
