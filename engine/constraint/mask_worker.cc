#include "engine/constraint/mask_worker.h"

#include <chrono>
#include <exception>
#include <utility>

#include "engine/constraint/constraint.h"
#include "kernels/check.h"

namespace loci {

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MaskWorker::start(std::vector<Job> jobs) {
  if (jobs.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    LOCI_CHECK(n_done_ == jobs_.size(), "masks of a step that was not finished");
    jobs_ = std::move(jobs);
    n_taken_ = n_done_ = 0;
    error_ = nullptr;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

// One job that nobody has begun. False when there is none.
bool MaskWorker::work_on_one() {
  Job job;
  {
    const std::lock_guard lock(mutex_);
    if (n_taken_ == jobs_.size()) return false;
    job = jobs_[n_taken_++];
  }
  std::exception_ptr error;
  try {
    job.state->prepare(job.drafts);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    ++n_done_;
    if (error != nullptr) error_ = error;
  }
  changed_.notify_all();
  return true;
}

void MaskWorker::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stops_ || n_taken_ < jobs_.size(); });
      if (stops_) return;
    }
    while (work_on_one()) {
    }
  }
}

double MaskWorker::finish() {
  const auto start = std::chrono::steady_clock::now();
  while (work_on_one()) {
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_done_ == jobs_.size(); });
  jobs_.clear();
  n_taken_ = n_done_ = 0;
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace loci
