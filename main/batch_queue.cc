#include "main/batch_queue.h"

#include <utility>

#include "kernels/check.h"

namespace loci::cli {

bool PrefixQueue::Before::operator()(const Entry& a, const Entry& b) const {
  const auto order = a.job.tokens() <=> b.job.tokens();
  return order != 0 ? order < 0 : a.number < b.number;
}

void PrefixQueue::add(BatchJob job) {
  n_bytes_ += job.n_bytes();
  jobs_.insert({std::move(job), n_added_++});
}

BatchJob PrefixQueue::take() {
  LOCI_CHECK(!jobs_.empty(), "no job waits");
  auto next = last_ ? jobs_.upper_bound(*last_) : jobs_.begin();
  if (next == jobs_.end()) next = jobs_.begin();
  Entry entry = std::move(jobs_.extract(next).value());
  n_bytes_ -= entry.job.n_bytes();
  last_.emplace();
  last_->number = entry.number;
  last_->job.request.prompts.push_back(entry.job.request.prompts.front());
  return std::move(entry.job);
}

}  // namespace loci::cli
