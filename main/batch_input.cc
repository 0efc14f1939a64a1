#include "main/batch_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace loci::cli {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\v\f") == std::string::npos; }

}  // namespace

LineReader::LineReader(const std::string& path) : path_(path == "-" ? "standard input" : path) {
  if (path == "-") {
    fd_ = STDIN_FILENO;
  } else {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) {
      fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kInvalidInput, path, ": ", std::strerror(errno));
    }
    owns_fd_ = true;
  }
  struct stat info {};
  if (fstat(fd_, &info) != 0) return;
  if (S_ISDIR(info.st_mode)) {
    if (owns_fd_) close(fd_);
    owns_fd_ = false;
    fail(ErrorKind::kInvalidInput, path_, ": is a directory, expected a file of requests");
  }
  if (S_ISREG(info.st_mode)) n_total_bytes_ = info.st_size;
}

LineReader::~LineReader() {
  if (owns_fd_) close(fd_);
}

LineReader::Fill LineReader::fill(int wait_ms) {
  if (at_end_) return Fill::kEnd;
  if (!is_file()) {
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, wait_ms) <= 0) return Fill::kNothingYet;  // a signal counts as nothing
  }
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t held = buffer_.size();
  buffer_.resize(held + kChunkBytes);
  const ssize_t n = read(fd_, buffer_.data() + held, kChunkBytes);
  buffer_.resize(held + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n < 0 && errno != EINTR && errno != EAGAIN) {
    fail(ErrorKind::kInvalidInput, path_, ": ", std::strerror(errno));
  }
  if (n < 0) return Fill::kNothingYet;
  if (n == 0) at_end_ = true;
  return n == 0 ? Fill::kEnd : Fill::kMore;
}

void LineReader::take(const char* bytes, size_t n) {
  const auto room = static_cast<size_t>(kMaxLineBytes) - line_.text.size();
  line_.text.append(bytes, std::min(n, room));
  line_.n_bytes += static_cast<int64_t>(n);
}

LineReader::Status LineReader::next(InputLine& line, int wait_ms) {
  while (true) {
    if (!checked_mark_) {
      while (buffer_.size() < 3) {
        const Fill filled = fill(wait_ms);
        if (filled == Fill::kNothingYet) return Status::kNothingYet;
        if (filled == Fill::kEnd) break;
      }
      if (buffer_.rfind("\xef\xbb\xbf", 0) == 0) at_ = 3;
      if (buffer_.rfind("\xff\xfe", 0) == 0 || buffer_.rfind("\xfe\xff", 0) == 0) {
        fail(ErrorKind::kInvalidInput, path_, ": expected UTF-8, found UTF-16 (a byte-order mark of it)");
      }
      n_read_bytes_ = static_cast<int64_t>(at_);
      checked_mark_ = true;
    }
    if (after_cr_ && at_ < buffer_.size()) {
      if (buffer_[at_] == '\n') ++at_, ++n_read_bytes_;
      after_cr_ = false;
    }
    const size_t end = std::min(buffer_.find_first_of("\r\n", at_), buffer_.size());
    take(buffer_.data() + at_, end - at_);
    n_read_bytes_ += static_cast<int64_t>(end - at_);
    at_ = end;
    if (at_ < buffer_.size()) {
      after_cr_ = buffer_[at_] == '\r';
      ++at_, ++n_read_bytes_;
    } else {
      const Fill filled = fill(wait_ms);
      if (filled == Fill::kNothingYet) return Status::kNothingYet;
      if (filled == Fill::kMore) continue;
      if (line_.n_bytes == 0) return Status::kEnd;
    }
    ++line_.number;
    InputLine done{line_.number, n_lines_ + 1, std::move(line_.text), line_.n_bytes};
    line_.text.clear();
    line_.n_bytes = 0;
    if (!done.too_long() && is_blank(done.text)) continue;
    ++n_lines_;
    line = std::move(done);
    return Status::kLine;
  }
}

int64_t count_lines(const std::string& path) {
  LineReader reader(path);
  InputLine line;
  while (reader.next(line, -1) == LineReader::Status::kLine) {
  }
  return reader.n_lines();
}

}  // namespace loci::cli
