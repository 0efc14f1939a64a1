#include "main/batch_queue.h"

#include <utility>

#include "kernels/check.h"

namespace loci::cli {

bool PrefixQueue::Before::operator()(const Entry& a, const Entry& b) const {
  if (a.job.request.priority != b.job.request.priority) return a.job.request.priority > b.job.request.priority;
  const auto order = a.job.tokens() <=> b.job.tokens();
  return order != 0 ? order < 0 : a.number < b.number;
}

void PrefixQueue::add(BatchJob job) {
  n_bytes_ += job.n_bytes();
  jobs_.insert({std::move(job), n_added_++});
}

BatchJob PrefixQueue::take() {
  LOCI_CHECK(!jobs_.empty(), "no job waits");
  // Behind the last one, but never behind a higher priority that is there.
  auto next = last_ ? jobs_.upper_bound(*last_) : jobs_.begin();
  const int highest = jobs_.begin()->job.request.priority;
  if (next == jobs_.end() || next->job.request.priority != highest) next = jobs_.begin();
  Entry entry = std::move(jobs_.extract(next).value());
  n_bytes_ -= entry.job.n_bytes();
  last_.emplace();
  last_->number = entry.number;
  last_->job.request.priority = entry.job.request.priority;
  last_->job.request.prompts.push_back(entry.job.request.prompts.front());
  return std::move(entry.job);
}

}  // namespace loci::cli
