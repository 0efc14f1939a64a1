// Scheduler: who runs in the next step, on which pages, at which positions. Continuous batching with chunked
// prefill, first come first served; knows neither tensors nor text.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch.h"
#include "engine/kv/kv_manager.h"
#include "engine/request.h"

namespace loci {

// A request on its way. Prefill and decode are the same: some of `tokens` have no K/V yet.
struct Sequence {
  RequestId id = 0;
  std::vector<int32_t> tokens;  // prompt, then what was generated
  int64_t n_prompt = 0;
  bool cache_prompt = true;
  bool wants_logits = true;  // false: evaluate only
  CacheNamespace ns;
  KvSequence kv;          // tokens whose K/V exist: a prefix of `tokens`
  CacheReport cache;      // of the first admission; n_cached is 0 before it
  bool admitted = false;  // at least once

  virtual ~Sequence() = default;
  int64_t n_computed() const { return static_cast<int64_t>(kv.tokens.size()); }
  int64_t n_pending() const { return static_cast<int64_t>(tokens.size()) - n_computed(); }
};

struct SchedulerLimits {
  int n_ubatch = 512;     // rows of one step
  int n_batch = 2048;     // rows of one step from one sequence
  int max_sequences = 1;  // admitted at once
};

// The rows [batch.q_indptr[i], batch.q_indptr[i + 1]) of a step belong to entries[i].
struct Step {
  Batch batch;
  std::vector<Sequence*> entries;
  // Sequences that cannot go on: the cache is full and there is nobody else to make way.
  std::vector<Sequence*> stuck;
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvManager& kv) : limits_(limits), kv_(kv) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
  // Decode rows first, then prompt chunks of running sequences, then new ones, up to the row limit. When pages are
  // short the youngest running sequence gives its pages back and is computed again later.
  Step next_step();
  // The step was computed: its tokens have K/V now.
  void commit(const Step& step);
  // Takes a sequence out and ends its use of the cache: kept for reuse, or dropped.
  std::unique_ptr<Sequence> remove(Sequence* sequence, bool keep_cache);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  // All sequences, running first.
  std::vector<Sequence*> sequences() const;
  void check_invariants() const;

 private:
  bool make_room(Sequence& sequence, int64_t n_tokens);
  void preempt(Sequence& sequence);
  bool admit_next();
  void append(Step& step, Sequence& sequence, int64_t n_rows);

  SchedulerLimits limits_;
  KvManager& kv_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // by admission
  bool preempted_ = false;                          // in the step being planned
};

}  // namespace loci
