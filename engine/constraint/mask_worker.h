// MaskWorker: a thread that computes the masks of a step while the forward pass runs.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace loci {

class ConstraintState;
struct DraftTree;

class MaskWorker {
 public:
  struct Job {
    ConstraintState* state;
    const DraftTree* drafts;  // may be empty
  };

  MaskWorker() = default;
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  // Begins with the jobs; the thread is made at the first. Until finish() returns, their states are the worker's.
  void start(std::vector<Job> jobs);
  // Waits for them, taking part in what has not been begun. Returns the time waited, in ms; what a job threw is thrown.
  double finish();

 private:
  void run();
  bool work_on_one();

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;  // guarded by mutex_, as the rest
  size_t n_taken_ = 0, n_done_ = 0;
  std::exception_ptr error_;
  bool stops_ = false;
};

}  // namespace loci
