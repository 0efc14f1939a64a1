// The input of `loci batch`, line by line: files of any size, pipes, all three kinds of line ends.
#pragma once
#include <cstdint>
#include <string>

namespace loci::cli {

struct InputLine {
  int64_t number = 0;   // 1-based, blank lines counted
  int64_t ordinal = 0;  // 1-based, blank lines left out
  std::string text;     // without its end; at most LineReader::kMaxLineBytes
  int64_t n_bytes = 0;  // of the whole line: more than text.size() when it was too long
  bool too_long() const { return n_bytes > static_cast<int64_t>(text.size()); }
};

// Lines end with \n, \r\n or \r. A byte-order mark at the start is dropped, blank lines are skipped.
class LineReader {
 public:
  static constexpr int64_t kMaxLineBytes = int64_t{64} << 20;

  // "-": standard input. Throws Error naming path and reason; UTF-16 is refused.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Status { kLine, kEnd, kNothingYet };
  // `wait_ms`: how long to wait for a pipe that has nothing to read.
  Status next(InputLine& line, int wait_ms);

  bool is_file() const { return n_total_bytes_ >= 0; }
  int64_t n_total_bytes() const { return n_total_bytes_; }  // -1: not a regular file
  int64_t n_read_bytes() const { return n_read_bytes_; }    // of lines handed out or skipped
  int64_t n_lines() const { return n_lines_; }              // handed out

 private:
  enum class Fill { kMore, kEnd, kNothingYet };
  Fill fill(int wait_ms);
  void take(const char* bytes, size_t n);

  std::string path_;
  int fd_ = -1;
  bool owns_fd_ = false, at_end_ = false, after_cr_ = false, checked_mark_ = false;
  int64_t n_total_bytes_ = -1, n_read_bytes_ = 0, n_lines_ = 0;
  std::string buffer_;  // bytes read and not yet looked at: buffer_[at_..)
  size_t at_ = 0;
  InputLine line_;  // the line being put together
};

// Lines of a file that LineReader would hand out. Reads the whole file.
int64_t count_lines(const std::string& path);

}  // namespace loci::cli
