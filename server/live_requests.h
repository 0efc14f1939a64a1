// LiveRequests: what is being worked on now, for GET /slots. The engine has no fixed slots: a request takes the lowest
// free number while it lives.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace loci::server {

struct LiveRequest {
  int64_t task = 0;  // counts requests
  int64_t n_prompt = 0, n_prompt_done = 0, n_prompt_cached = 0;
  int64_t n_decoded = 0, n_remain = -1;  // -1: no limit
  bool speculative = false;
};

class LiveRequests {
 public:
  int add(const LiveRequest& request);  // returns its number
  // Sets what has changed.
  template <typename Change>
  void update(int number, const Change& change) {
    const std::lock_guard lock(mutex_);
    change(requests_.at(number));
  }
  void remove(int number);
  std::map<int, LiveRequest> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, LiveRequest> requests_;  // guarded by mutex_
  int64_t n_tasks_ = 0;                  // likewise
};

}  // namespace loci::server
