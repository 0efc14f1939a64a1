// PrefixQueue: the jobs that wait, those of higher priority first. Of one priority they are handed out so that prompts
// with a common beginning follow one another: in the order of their tokens, which walks the tree of prefixes depth
// first. Jobs that come late wait for the next round when the walk has passed their place, so that none waits for ever.
#pragma once
#include <cstdint>
#include <optional>
#include <set>

#include "main/batch_job.h"

namespace loci::cli {

class PrefixQueue {
 public:
  void add(BatchJob job);
  // The next job. REQUIRES: !empty().
  BatchJob take();

  bool empty() const { return jobs_.empty(); }
  size_t size() const { return jobs_.size(); }
  int64_t n_bytes() const { return n_bytes_; }

 private:
  struct Entry {
    BatchJob job;
    int64_t number = 0;  // of arrival: equal prompts keep their order
  };
  struct Before {
    bool operator()(const Entry& a, const Entry& b) const;
  };

  std::set<Entry, Before> jobs_;
  std::optional<Entry> last_;  // handed out last, without its other prompts
  int64_t n_added_ = 0, n_bytes_ = 0;
};

}  // namespace loci::cli
