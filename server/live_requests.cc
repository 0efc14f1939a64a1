#include "server/live_requests.h"

namespace loci::server {

int LiveRequests::add(const LiveRequest& request) {
  const std::lock_guard lock(mutex_);
  int number = 0;
  for (const auto& [used, other] : requests_) {
    if (used != number) break;
    ++number;
  }
  LiveRequest& added = requests_[number] = request;
  added.task = n_tasks_++;
  return number;
}

void LiveRequests::remove(int number) {
  const std::lock_guard lock(mutex_);
  requests_.erase(number);
}

std::map<int, LiveRequest> LiveRequests::all() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace loci::server
