// Drafter: drafts how sequences go on. A draft may be wrong at no risk: what is wrong only costs time. A new kind of
// drafter is one file that implements this and one line in drafter_list.cc.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "engine/kv/kv_manager.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/spec/draft_tree.h"

namespace loci {

// One request in a round of drafting.
struct DraftJob {
  int64_t key = 0;                   // of the sequence, for what the drafter remembers of it
  std::span<const int32_t> tokens;   // prompt and answer; K/V of all but the last exist
  const KvSequence* kv = nullptr;    // with pages for tokens.size() - 1 + max_depth tokens
  const Sampler* sampler = nullptr;  // the request's own, as it stands behind `tokens`
  const Speculation* params = nullptr;
  int max_depth = 0;  // >= 1
  // Whether one more draft behind those in the tree is worth its time; drafters for which drafts cost nothing need
  // not ask.
  std::function<bool(const DraftTree& tree)> go_on;
  DraftTree tree;  // the answer; empty at first
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::string_view name() const = 0;
  // Which requests ask for this drafter.
  virtual bool serves(SpeculationMode mode) const = 0;

  // Fills the trees of all jobs.
  virtual void propose(std::span<DraftJob*> jobs) = 0;
  // Expected time of the first draft of a job (what has to be caught up on included), and of each further one.
  virtual double first_draft_ms(const DraftJob& job) const = 0;
  virtual double next_draft_ms() const = 0;
  virtual bool is_free() const { return false; }  // drafting takes no time worth counting
  // One row of the target takes `ms`: a first idea for drafters that have not measured their own passes yet.
  virtual void target_row_takes(double ms) { (void)ms; }

  // The page dst became a copy of src, the drafter's own layers included.
  virtual void page_copied(int32_t src, int32_t dst) { (void)src, (void)dst; }
  // The sequence has ended.
  virtual void forget(int64_t key, std::span<const int32_t> tokens) = 0;
};

}  // namespace loci
