// Scheduler: who runs in the next step, on which pages, at which positions. Continuous batching with chunked prefill,
// priorities, cache-aware admission, preemption; knows neither tensors nor text. Rules: docs/scheduling.md.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/batch.h"
#include "engine/config.h"
#include "engine/kv/kv_manager.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/spec/drafts.h"

namespace loci {

// A request's sample on its way. Prefill and decode are the same: some of `tokens` have no K/V yet.
struct Sequence {
  RequestId id = 0;
  std::vector<int32_t> tokens;  // prompt, then what was generated
  int64_t n_prompt = 0;
  int priority = 0;
  bool cache_prompt = true;
  bool wants_logits = true;        // false: evaluate only
  bool wants_prompt_rows = false;  // each row of the prompt is a logit row. REQUIRES: !cache_prompt
  CacheNamespace ns;
  KvSequence kv;          // tokens whose K/V exist: a prefix of `tokens`
  CacheReport cache;      // of the first admission; n_cached is 0 before it
  bool admitted = false;  // at least once
  Drafts drafts;          // for the next step: rows behind the newest token

  // The scheduler's own.
  std::optional<HostKv> host;   // what was `kv` before it was swapped out
  double waited_ms = 0;         // time in the queue and beside steps without a row of its own
  double counted_ms = 0;        // up to when that was counted
  int64_t last_turn = -1;       // number of the turn (a sequence's part of a step) that served it last
  int64_t n_computed_most = 0;  // most tokens that ever had K/V: below that, rows are computed again

  virtual ~Sequence() = default;
  int64_t n_computed() const { return static_cast<int64_t>(kv.tokens.size()); }
  int64_t n_pending() const { return static_cast<int64_t>(tokens.size()) - n_computed(); }
  // Only the newest token has no K/V: each step brings the next one.
  bool decodes() const { return n_pending() == 1 && n_computed() > 0; }
};

struct SchedulerLimits {
  int n_ubatch = 512;                            // rows of one step
  int n_batch = 2048;                            // rows of one step from one sequence
  int max_sequences = 1;                         // admitted at once
  double max_stall_ms = 200, ageing_ms = 10000;  // EngineConfig
  Preemption preemption = Preemption::kAuto;
};

// What rows cost, learned from steps. Steers chunk lengths; tokens do not depend on them.
class StepCost {
 public:
  void add(int64_t n_prefill_rows, int64_t n_decode_rows, double step_ms);
  double ms_per_prefill_row() const { return rows_ > 0 ? rows_ms_ / rows_ : 0; }  // 0: not known yet
  // Prompt rows that a step can take beside the decoding ones within `step_ms`.
  int64_t prefill_rows_within(double step_ms) const;

 private:
  double decode_ms_ = 0;           // of a step without prompt rows, averaged
  double rows_ = 0, rows_ms_ = 0;  // decayed sums over steps with prompt rows
};

// The rows [row_indptr[i], row_indptr[i + 1]) of a step belong to entries[i]: tokens, then drafts. The first
// n_token_rows[i] are tokens.
struct Step {
  Batch batch;
  std::vector<Sequence*> entries;
  std::vector<int32_t> row_indptr{0}, n_token_rows;
  int64_t n_prefill_rows = 0, n_decode_rows = 0;
  // Sequences that cannot go on: the cache is full and there is nobody else to make way.
  std::vector<Sequence*> stuck;
};

// Invariants: a sequence is in one of the two lists, once; one that waits holds no pages.
class Scheduler {
 public:
  static constexpr int64_t kMinPrefillRows = 16;

  Scheduler(const SchedulerLimits& limits, KvManager& kv, Metrics& metrics)
      : limits_(limits), kv_(kv), metrics_(metrics) {}

  // `now_ms` here and below is of one clock that does not go back.
  void add(std::unique_ptr<Sequence> sequence, double now_ms);
  // Adds a sequence with the tokens of a running `parent`, sharing its pages: it runs at once if there is a place for
  // it, and waits otherwise.
  void fork(Sequence& parent, std::unique_ptr<Sequence> child);
  // Plans a step.
  Step next_step(double now_ms);
  // The step was computed in step_ms: its tokens have K/V now.
  void commit(const Step& step, double step_ms);
  // Sequences that bring one row and could bring drafts behind it.
  std::vector<Sequence*> decoding() const;
  // Takes a sequence out and ends its use of the cache: kept for reuse, or dropped.
  std::unique_ptr<Sequence> remove(Sequence* sequence, bool keep_cache);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  int64_t n_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t n_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t n_queued() const;  // of those waiting, the ones never admitted
  // All sequences, running first.
  std::vector<Sequence*> sequences() const;
  void check_invariants() const;

 private:
  // A waiting sequence as admission sees it.
  struct Candidate {
    Sequence* sequence;
    int64_t n_matched;  // of its tokens, found in the cache
  };

  int64_t effective_class(const Sequence& s) const;
  double age_bonus(const Sequence& s) const;
  void count_waiting(double now_ms);
  bool is_running(const Sequence* sequence) const;
  Sequence& next_victim() const;
  bool make_room(Sequence& sequence, int64_t n_tokens);
  bool is_worth_swapping(const Sequence& sequence) const;
  bool drop_all_drafts();
  void preempt(Sequence& sequence);
  std::vector<Candidate> candidates();
  bool shares_what_is_being_computed(const Candidate& candidate) const;
  int64_t rows_ahead_of(const Candidate& candidate) const;
  bool make_way_for(const Sequence& sequence);
  void admit_waiting(int64_t prefill_budget);
  bool fits_beside_others(const Sequence& sequence) const;
  bool take_cached_pages(Sequence& sequence, CacheReport& report);
  bool admit(Sequence& sequence);
  void append(Step& step, Sequence& sequence, int64_t n_rows);

  SchedulerLimits limits_;
  KvManager& kv_;
  Metrics& metrics_;
  StepCost cost_;
  std::vector<std::unique_ptr<Sequence>> waiting_;  // by arrival; preempted ones at the end
  std::vector<std::unique_ptr<Sequence>> running_;  // by admission
  bool preempted_ = false;                          // in the step being planned
  int64_t n_turns_ = 0;                             // since the start
  int64_t first_turn_ = 0;                          // of the last step
};

}  // namespace loci
