#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace loci {
namespace {

// Tokens kept free per running sequence when another one is admitted.
constexpr int64_t kHeadroomTokens = 64;

}  // namespace

void Scheduler::preempt(Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == &sequence; });
  LOCI_CHECK(it != running_.end(), "preempted sequence does not run");
  kv_.release(std::move(sequence.kv));
  sequence.kv = {};
  waiting_.push_front(std::move(*it));
  running_.erase(it);
  preempted_ = true;
}

// Pages for n_tokens tokens of `sequence`, taken from younger sequences if need be. False when the sequence itself
// had to go back to the queue, or when it is alone and the cache is full.
bool Scheduler::make_room(Sequence& sequence, int64_t n_tokens) {
  while (!kv_.reserve(sequence.kv, n_tokens)) {
    if (running_.size() == 1) return false;
    Sequence& youngest = *running_.back();
    const bool is_itself = &youngest == &sequence;
    preempt(youngest);
    if (is_itself) return false;
  }
  return true;
}

bool Scheduler::admit_next() {
  if (waiting_.empty() || static_cast<int>(running_.size()) >= limits_.max_sequences) return false;
  Sequence& sequence = *waiting_.front();
  KvMatch found = sequence.cache_prompt ? kv_.match(sequence.tokens, sequence.ns) : KvManager::uncached();
  sequence.kv = std::move(found.sequence);
  // Room for the others to grow, so that nobody is preempted at once.
  KvSequence headroom;
  const int64_t n_headroom = kHeadroomTokens * static_cast<int64_t>(running_.size());
  const bool fits =
      kv_.reserve(sequence.kv, static_cast<int64_t>(sequence.tokens.size())) && kv_.reserve(headroom, n_headroom);
  kv_.release(std::move(headroom));
  if (!fits) {
    kv_.release(std::move(sequence.kv));
    // Others run and will free pages. With nobody running the pool holds any admissible prompt.
    if (!running_.empty()) return false;
    sequence.kv = sequence.cache_prompt ? kv_.find({}, sequence.ns) : KvSequence();
    LOCI_CHECK(kv_.reserve(sequence.kv, static_cast<int64_t>(sequence.tokens.size())),
               "prompt larger than the pool: ", sequence.tokens.size());
  }
  if (!std::exchange(sequence.admitted, true)) sequence.cache = std::move(found.report);
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

void Scheduler::append(Step& step, Sequence& sequence, int64_t n_rows) {
  Batch& batch = step.batch;
  const int64_t page_size = kv_.page_size();
  const int64_t first = sequence.n_computed();
  for (int64_t position = first; position < first + n_rows; ++position) {
    batch.tokens.push_back(sequence.tokens[static_cast<size_t>(position)]);
    batch.positions.push_back(static_cast<int32_t>(position));
    const int32_t page = sequence.kv.pages[static_cast<size_t>(position / page_size)];
    batch.slots.push_back(page * page_size + position % page_size);
  }
  const int64_t n_pages = (first + n_rows + page_size - 1) / page_size;
  batch.page_indices.insert(batch.page_indices.end(), sequence.kv.pages.begin(), sequence.kv.pages.begin() + n_pages);
  batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
  batch.q_indptr.push_back(static_cast<int32_t>(batch.tokens.size()));
  if (sequence.wants_logits && n_rows == sequence.n_pending()) {
    batch.logit_rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
  }
  step.entries.push_back(&sequence);
}

Step Scheduler::next_step() {
  Step step;
  preempted_ = false;
  int64_t budget = limits_.n_ubatch;
  // Room first, rows after: a sequence planned early may still have to make way for an older one.
  std::vector<Sequence*> order;
  for (const auto& sequence : running_) order.push_back(sequence.get());
  std::stable_partition(order.begin(), order.end(), [](const Sequence* s) { return s->n_pending() == 1; });
  std::vector<std::pair<Sequence*, int64_t>> planned;
  const auto is_running = [&](const Sequence* s) {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& r) { return r.get() == s; });
  };
  const auto plan = [&](Sequence* sequence) {
    const int64_t n_rows = std::min({sequence->n_pending(), budget, int64_t{limits_.n_batch}});
    if (n_rows <= 0) return;
    if (make_room(*sequence, sequence->n_computed() + n_rows)) {
      planned.emplace_back(sequence, n_rows);
      budget -= n_rows;
    } else if (is_running(sequence)) {
      step.stuck.push_back(sequence);
    }
  };
  for (Sequence* sequence : order) {
    if (is_running(sequence)) plan(sequence);
  }
  while (budget > 0 && !preempted_ && admit_next()) plan(running_.back().get());
  for (const auto& [sequence, n_rows] : planned) {
    if (is_running(sequence)) append(step, *sequence, n_rows);
  }
  return step;
}

void Scheduler::commit(const Step& step) {
  for (size_t i = 0; i < step.entries.size(); ++i) {
    Sequence& sequence = *step.entries[i];
    const auto first = sequence.tokens.begin() + sequence.n_computed();
    const int32_t n_rows = step.batch.q_indptr[i + 1] - step.batch.q_indptr[i];
    sequence.kv.tokens.insert(sequence.kv.tokens.end(), first, first + n_rows);
    // From here on others find the prompt.
    if (sequence.n_computed() >= sequence.n_prompt && sequence.n_computed() - n_rows < sequence.n_prompt) {
      kv_.publish(sequence.kv);
    }
  }
}

std::unique_ptr<Sequence> Scheduler::remove(Sequence* sequence, bool keep_cache) {
  std::unique_ptr<Sequence> taken;
  const auto is_it = [&](const auto& s) { return s.get() == sequence; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    taken = std::move(*it);
    running_.erase(it);
  } else if (const auto queued = std::find_if(waiting_.begin(), waiting_.end(), is_it); queued != waiting_.end()) {
    taken = std::move(*queued);
    waiting_.erase(queued);
  }
  LOCI_CHECK(taken != nullptr, "unknown sequence");
  if (keep_cache) {
    kv_.keep(std::move(taken->kv));
  } else {
    kv_.release(std::move(taken->kv));
  }
  taken->kv = {};
  return taken;
}

std::vector<Sequence*> Scheduler::sequences() const {
  std::vector<Sequence*> all;
  for (const auto& sequence : running_) all.push_back(sequence.get());
  for (const auto& sequence : waiting_) all.push_back(sequence.get());
  return all;
}

void Scheduler::check_invariants() const {
  std::vector<const KvSequence*> live;
  for (const auto& sequence : running_) live.push_back(&sequence->kv);
  for (const auto& sequence : waiting_) {
    LOCI_CHECK(sequence->kv.pages.empty(), "a waiting sequence holds pages");
  }
  kv_.check_invariants(live);
}

}  // namespace loci
