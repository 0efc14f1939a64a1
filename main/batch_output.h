// The output of `loci batch`: one line a result, appended with one write each, so that a killed run leaves whole lines
// and at most one torn one at the end.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "main/batch_ledger.h"

namespace loci::cli {

struct BatchOutputOptions {
  std::string path;           // "-": standard output, nothing to resume from
  std::string fingerprint;    // system_fingerprint of this run
  bool overwrite = false;     // drop what is there
  bool retry_failed = false;  // drop the failures that are there, so that they run again
  bool allow_mixed = false;   // results of other models or settings may stay
};

class BatchOutput {
 public:
  // Opens or creates the file, locks it against a second run, notes its results in `ledger`, cuts a torn last line off.
  // Throws Error when the file is no output of a batch, was written with another fingerprint, or is in use.
  BatchOutput(const BatchOutputOptions& options, BatchLedger& ledger);

  // Appends `line` and a newline. When the disk takes no more, what was written of the line is cut off again, and
  // Error is thrown.
  void write(std::string line);
  void sync();  // to the disk

  bool resumable() const { return is_file_; }
  int64_t n_torn_bytes() const { return n_torn_bytes_; }  // cut off at the start
  int64_t n_mixed() const { return n_mixed_; }            // results with another fingerprint

 private:
  // Owns a descriptor; the standard streams stay open.
  class Descriptor {
   public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() { reset(-1); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    void reset(int fd);
    int release() { return std::exchange(fd_, -1); }

   private:
    int fd_;
  };

  void scan(const BatchOutputOptions& options, BatchLedger& ledger);
  void drop_failures(const BatchOutputOptions& options);
  void open_file(const std::string& path);
  void write_all(const std::string& bytes);

  std::string path_, name_;  // resolved; for messages
  Descriptor fd_;
  bool is_file_ = false;
  int64_t n_bytes_ = 0;  // of whole lines
  int64_t n_torn_bytes_ = 0, n_mixed_ = 0;
};

}  // namespace loci::cli
