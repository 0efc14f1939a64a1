#include "engine/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/check.h"

namespace loci {
namespace {

// Tokens kept free per running sequence when another one is admitted.
constexpr int64_t kHeadroomTokens = 64;
// Waiting for so long weighs as much as a page found in the cache, or a page of prompt less to compute.
constexpr double kMsPerPage = 50;
// Sequences at the head of the queue that are looked up in the cache for one step.
constexpr size_t kMaxLookups = 64;
// Prompt rows beside decoding ones as long as their cost is unknown.
constexpr int64_t kUnmeasuredRows = 64;
// Copying pages to the host buffer or back, at a rate that any memory has.
constexpr double kSwapBytesPerMs = 1e6;

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto n = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin();
}

}  // namespace

void StepCost::add(int64_t n_prefill_rows, int64_t n_decode_rows, double step_ms) {
  constexpr double kKept = 0.8;  // of older steps
  if (n_prefill_rows == 0) {
    decode_ms_ = decode_ms_ == 0 ? step_ms : kKept * decode_ms_ + (1 - kKept) * step_ms;
    return;
  }
  // A few rows cost what reading the weights costs: nothing to learn from for longer chunks.
  if (n_prefill_rows < Scheduler::kMinPrefillRows && rows_ > 0) return;
  const double decode_ms = n_decode_rows > 0 ? std::min(decode_ms_, step_ms) : 0;
  rows_ = kKept * rows_ + static_cast<double>(n_prefill_rows);
  rows_ms_ = kKept * rows_ms_ + step_ms - decode_ms;
}

int64_t StepCost::prefill_rows_within(double step_ms) const {
  if (rows_ == 0) return kUnmeasuredRows;
  const double rows = (step_ms - decode_ms_) / std::max(1e-6, ms_per_prefill_row());
  return static_cast<int64_t>(std::clamp(rows, static_cast<double>(Scheduler::kMinPrefillRows), 1e9));
}

int64_t Scheduler::effective_class(const Sequence& s) const {
  return s.priority + static_cast<int64_t>(s.waited_ms / limits_.ageing_ms);
}

double Scheduler::age_bonus(const Sequence& s) const { return s.waited_ms / kMsPerPage * kv_.page_size(); }

bool Scheduler::is_running(const Sequence* sequence) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& r) { return r.get() == sequence; });
}

void Scheduler::add(std::unique_ptr<Sequence> sequence, double now_ms) {
  sequence->counted_ms = now_ms;
  waiting_.push_back(std::move(sequence));
}

void Scheduler::count_waiting(double now_ms) {
  for (Sequence* sequence : sequences()) {
    if (sequence->last_turn < first_turn_) sequence->waited_ms += now_ms - sequence->counted_ms;
    sequence->counted_ms = now_ms;
  }
}

bool Scheduler::is_worth_swapping(const Sequence& sequence) const {
  if (limits_.preemption != Preemption::kAuto) return limits_.preemption == Preemption::kSwap;
  const auto n_tokens = static_cast<double>(sequence.n_computed()),
             bytes = static_cast<double>(kv_.bytes_of(sequence.kv));
  return 2 * bytes / kSwapBytesPerMs < n_tokens * cost_.ms_per_prefill_row();
}

void Scheduler::preempt(Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == &sequence; });
  LOCI_CHECK(it != running_.end(), "preempted sequence does not run");
  drop_drafts(sequence.drafts, kv_);
  if (is_worth_swapping(sequence)) sequence.host = kv_.swap_out(sequence.kv);
  ++(sequence.host ? metrics_.n_preempted_swap : metrics_.n_preempted_recompute);
  // What it has computed stays in the cache until its pages are taken.
  if (sequence.host) {
    sequence.kv = {};
  } else if (sequence.cache_prompt) {
    kv_.keep(std::move(sequence.kv));
  } else {
    kv_.release(std::move(sequence.kv));
  }
  waiting_.push_back(std::move(*it));
  running_.erase(it);
  preempted_ = true;
}

// Lowest class first, in it the one admitted last.
Sequence& Scheduler::next_victim() const {
  const auto lower = [&](const auto& a, const auto& b) { return effective_class(*a) < effective_class(*b); };
  // Of equals min_element takes the first: the last one admitted when it goes backwards.
  return **std::min_element(running_.rbegin(), running_.rend(), lower);
}

// False when nobody had any.
bool Scheduler::drop_all_drafts() {
  bool some = false;
  for (const auto& sequence : running_) {
    some = some || !sequence->drafts.empty();
    drop_drafts(sequence->drafts, kv_);
  }
  return some;
}

// Pages for n_tokens tokens of `sequence`, taken from others if need be, drafts first. False when the sequence itself
// had to go back to the queue, or when it is alone and the cache is full.
bool Scheduler::make_room(Sequence& sequence, int64_t n_tokens) {
  while (!kv_.reserve(sequence.kv, n_tokens)) {
    if (drop_all_drafts()) continue;
    if (running_.size() == 1) return false;
    Sequence& victim = next_victim();
    const bool is_itself = &victim == &sequence;
    preempt(victim);
    if (is_itself) return false;
  }
  return true;
}

// Waiting sequences, the one to be admitted next at the front.
std::vector<Scheduler::Candidate> Scheduler::candidates() {
  std::vector<Sequence*> head;
  for (const auto& sequence : waiting_) head.push_back(sequence.get());
  const auto urgency = [&](const Sequence* s) { return std::tuple(-effective_class(*s), -s->waited_ms, s->id); };
  if (head.size() > kMaxLookups) {
    const auto by_urgency = [&](const Sequence* a, const Sequence* b) { return urgency(a) < urgency(b); };
    std::partial_sort(head.begin(), head.begin() + kMaxLookups, head.end(), by_urgency);
    head.resize(kMaxLookups);
  }
  std::vector<Candidate> found;
  for (Sequence* s : head) {
    int64_t n_matched = 0;
    if (s->host) {
      n_matched = static_cast<int64_t>(s->host->tokens.size());
    } else if (s->cache_prompt) {
      n_matched = kv_.peek(s->tokens, s->ns);
    }
    found.push_back({s, n_matched});
  }
  const auto rank = [&](const Candidate& c) {
    return std::tuple(-effective_class(*c.sequence), -static_cast<double>(c.n_matched) - age_bonus(*c.sequence),
                      c.sequence->id);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return found;
}

// A running sequence of at least its class computes pages that the candidate could use: better to wait for them.
bool Scheduler::shares_what_is_being_computed(const Candidate& candidate) const {
  const Sequence& waiting = *candidate.sequence;
  if (!waiting.cache_prompt || waiting.host) return false;
  const int64_t page_size = kv_.page_size();
  return std::any_of(running_.begin(), running_.end(), [&](const auto& r) {
    if (!r->cache_prompt || r->ns != waiting.ns || r->n_pending() <= 1 ||
        effective_class(*r) < effective_class(waiting))
      return false;
    const int64_t shared = common_prefix(r->tokens, waiting.tokens) / page_size * page_size;
    return shared > std::max(candidate.n_matched, r->n_computed());
  });
}

// Prompt rows of running sequences that go before the candidate's.
int64_t Scheduler::rows_ahead_of(const Candidate& candidate) const {
  const Sequence& waiting = *candidate.sequence;
  const auto n_left = static_cast<double>(static_cast<int64_t>(waiting.tokens.size()) - candidate.n_matched);
  int64_t n_rows = 0;
  for (const auto& r : running_) {
    if (r->decodes()) continue;
    const bool ahead = effective_class(*r) != effective_class(waiting)
                           ? effective_class(*r) > effective_class(waiting)
                           : static_cast<double>(r->n_pending()) - age_bonus(*r) <= n_left - age_bonus(waiting);
    if (ahead) n_rows += r->n_pending();
  }
  return n_rows;
}

// Preempts a sequence of a lower class than the waiting one was submitted with. (Waiting lifts a class for the next
// free place, not over those that run: they would take turns, each time at the cost of a preemption.)
bool Scheduler::make_way_for(const Sequence& sequence) {
  if (running_.empty()) return false;
  Sequence& victim = next_victim();
  if (effective_class(victim) >= sequence.priority) return false;
  preempt(victim);
  return true;
}

// Pages are taken chunk by chunk. Those that the running prompts still want are spoken for, and the running sequences
// shall be able to grow a while.
bool Scheduler::fits_beside_others(const Sequence& sequence) const {
  if (running_.empty()) return true;
  const auto n_missing = [&](const Sequence& s) {
    const int64_t n_pages = kv_.n_pages_for(static_cast<int64_t>(s.tokens.size()));
    return std::max<int64_t>(0, n_pages - static_cast<int64_t>(s.kv.pages.size()));
  };
  int64_t n_wanted = kv_.n_pages_for(kHeadroomTokens) * n_running() + n_missing(sequence);
  for (const auto& r : running_) n_wanted += n_missing(*r);
  if (kv_.n_available_pages() < n_wanted) return false;
  if (kv_.n_window_pages() == 0) return true;
  // Window pages: each sequence comes to hold a window; the rows of a step are shared out among them.
  const auto n_missing_window = [&](const Sequence& s) {
    const int64_t n_pages = kv_.n_window_pages_for(static_cast<int64_t>(s.tokens.size()) + kHeadroomTokens);
    return std::max<int64_t>(0, n_pages - kv_.n_pinned(s.kv));
  };
  int64_t n_windows = kv_.n_pages_for(limits_.n_ubatch) + 1 + n_missing_window(sequence);
  for (const auto& r : running_) n_windows += n_missing_window(*r);
  return kv_.n_available_window_pages() >= std::min(n_windows, n_wanted);
}

// From the host buffer or the tree. False when its pages do not fit yet.
bool Scheduler::take_cached_pages(Sequence& sequence, CacheReport& report) {
  if (sequence.host) {
    if (!fits_beside_others(sequence)) return false;
    const bool is_back = kv_.swap_in(*sequence.host, sequence.kv);
    if (!is_back && !running_.empty()) return false;
    if (!is_back) kv_.discard(std::move(*sequence.host));
    sequence.host.reset();
    metrics_.n_swapped_in += is_back;
    if (is_back) return true;
  }
  KvMatch found = sequence.cache_prompt ? kv_.match(sequence.tokens, sequence.ns) : KvManager::uncached();
  sequence.kv = std::move(found.sequence);
  report = std::move(found.report);
  return true;
}

bool Scheduler::admit(Sequence& sequence) {
  CacheReport report;
  while (!take_cached_pages(sequence, report)) {
    if (!make_way_for(sequence)) return false;
  }
  while (!fits_beside_others(sequence)) {
    if (make_way_for(sequence)) continue;
    kv_.release(std::move(sequence.kv));
    return false;
  }
  if (!std::exchange(sequence.admitted, true)) {
    sequence.cache = std::move(report);
    ++(sequence.cache.n_cached > 0 ? metrics_.n_hits : metrics_.n_misses);
    metrics_.n_prompt_tokens += sequence.n_prompt;
    metrics_.n_cached_tokens += sequence.cache.n_cached;
  }
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& s) { return s.get() == &sequence; });
  running_.push_back(std::move(*it));
  waiting_.erase(it);
  return true;
}

// Admits as long as there are places, pages and prompt rows for the best candidate. After a preemption, whatever it was
// for, nobody else is admitted in this step.
void Scheduler::admit_waiting(int64_t prefill_budget) {
  const auto has_place = [&] { return n_running() < limits_.max_sequences; };
  const auto outranks = [&](const auto& s) { return s->priority > effective_class(next_victim()); };
  if (preempted_ || (!has_place() && std::none_of(waiting_.begin(), waiting_.end(), outranks))) return;
  for (const Candidate& candidate : candidates()) {
    if (preempted_) return;
    if (shares_what_is_being_computed(candidate)) continue;
    if (rows_ahead_of(candidate) >= prefill_budget) return;
    if (!has_place() && !make_way_for(*candidate.sequence)) return;
    if (!admit(*candidate.sequence)) return;
  }
}

void Scheduler::append(Step& step, Sequence& sequence, int64_t n_rows) {
  (sequence.decodes() ? step.n_decode_rows : step.n_prefill_rows) += n_rows;
  Batch& batch = step.batch;
  const int64_t page_size = kv_.page_size();
  const int64_t first = sequence.n_computed();
  for (int64_t position = first; position < first + n_rows; ++position) {
    batch.tokens.push_back(sequence.tokens[static_cast<size_t>(position)]);
    batch.positions.push_back(static_cast<int32_t>(position));
    const int32_t page = sequence.kv.pages[static_cast<size_t>(position / page_size)];
    batch.slots.push_back(page * page_size + position % page_size);
  }
  if (!sequence.drafts.empty()) {
    step.n_decode_rows += sequence.drafts.tree.size();
    append_drafts(batch, sequence.drafts, sequence.kv, kv_.page_size());
  } else {
    const int64_t n_pages = (first + n_rows + page_size - 1) / page_size;
    batch.page_indices.insert(batch.page_indices.end(), sequence.kv.pages.begin(), sequence.kv.pages.begin() + n_pages);
    batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
    batch.q_indptr.push_back(static_cast<int32_t>(batch.tokens.size()));
    const int64_t n_ends = sequence.wants_logits && n_rows == sequence.n_pending() ? 1 : 0;
    const int64_t n_prompt_rows = std::clamp<int64_t>(sequence.n_prompt - first, 0, n_rows);
    const int64_t n_wanted = std::max(n_ends, sequence.wants_prompt_rows ? n_prompt_rows : 0);
    const auto n_batch_rows = static_cast<int32_t>(batch.tokens.size());
    for (auto row = static_cast<int32_t>(n_batch_rows - n_wanted); row < n_batch_rows; ++row) {
      batch.logit_rows.push_back(row);
    }
  }
  step.entries.push_back(&sequence);
  sequence.last_turn = n_turns_++;
  step.n_token_rows.push_back(static_cast<int32_t>(n_rows));
  step.row_indptr.push_back(static_cast<int32_t>(batch.n_rows()));
}

Step Scheduler::next_step(double now_ms) {
  Step step;
  preempted_ = false;
  count_waiting(now_ms);
  first_turn_ = n_turns_;
  // Room first, rows after: a sequence planned early may still have to make way for another.
  std::vector<std::pair<Sequence*, int64_t>> planned;
  int64_t n_spare_rows = 0;  // that no newest token wants
  const auto plan = [&](Sequence* sequence, int64_t& budget) {
    const int64_t n_rows = std::min({sequence->n_pending(), budget, int64_t{limits_.n_batch}});
    if (n_rows <= 0 || !is_running(sequence)) return;
    // Drafts are for rows and pages that nobody else wants.
    const int64_t n_drafts = sequence->drafts.tree.size();
    if (n_drafts > 0) {
      const auto n_behind = static_cast<int64_t>(sequence->drafts.tree.branch(0).size());
      if (n_drafts <= n_spare_rows && kv_.reserve(sequence->kv, sequence->n_computed() + 1 + n_behind)) {
        planned.emplace_back(sequence, n_rows);
        budget -= n_rows + n_drafts;
        n_spare_rows -= n_drafts;
        return;
      }
      drop_drafts(sequence->drafts, kv_);
    }
    if (make_room(*sequence, sequence->n_computed() + n_rows)) {
      planned.emplace_back(sequence, n_rows);
      budget -= n_rows;
    } else if (is_running(sequence)) {
      step.stuck.push_back(sequence);
    }
  };
  const auto running = [&](bool decoding) {
    std::vector<Sequence*> found;
    for (const auto& s : running_) {
      if (s->decodes() == decoding) found.push_back(s.get());
    }
    return found;
  };

  // Decode rows: all of them, or in turns when they are more than a step takes. A few rows are left for prompts.
  std::vector<Sequence*> decoding = running(true);
  std::stable_sort(decoding.begin(), decoding.end(), [&](const Sequence* a, const Sequence* b) {
    return std::tuple(-effective_class(*a), a->last_turn) < std::tuple(-effective_class(*b), b->last_turn);
  });
  const bool has_prompts = !waiting_.empty() || decoding.size() < running_.size();
  const int64_t n_kept = has_prompts ? std::min<int64_t>(kMinPrefillRows, limits_.n_ubatch / 4) : 0;
  int64_t decode_budget = limits_.n_ubatch - n_kept;
  n_spare_rows = decode_budget - static_cast<int64_t>(decoding.size());
  for (Sequence* sequence : decoding) plan(sequence, decode_budget);

  // Prompt rows: what is nearly done first, with a bonus for waiting.
  int64_t prefill_budget = decode_budget + n_kept;
  if (!planned.empty() && limits_.max_stall_ms > 0) {
    prefill_budget = std::min(prefill_budget, cost_.prefill_rows_within(limits_.max_stall_ms));
  }
  admit_waiting(prefill_budget);
  std::vector<Sequence*> prefilling = running(false);
  const auto rank = [&](const Sequence* s) {
    return std::tuple(-effective_class(*s), static_cast<double>(s->n_pending()) - age_bonus(*s));
  };
  std::stable_sort(prefilling.begin(), prefilling.end(),
                   [&](const Sequence* a, const Sequence* b) { return rank(a) < rank(b); });
  for (Sequence* sequence : prefilling) plan(sequence, prefill_budget);

  for (const auto& [sequence, n_rows] : planned) {
    if (is_running(sequence)) append(step, *sequence, n_rows);
  }
  return step;
}

void Scheduler::commit(const Step& step, double step_ms) {
  cost_.add(step.n_prefill_rows, step.n_decode_rows, step_ms);
  for (size_t i = 0; i < step.entries.size(); ++i) {
    Sequence& sequence = *step.entries[i];
    const int64_t first = sequence.n_computed();
    const int64_t last = first + step.n_token_rows[i];
    kv_.append(sequence.kv,
               std::span(sequence.tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
    metrics_.n_recomputed_tokens += std::max<int64_t>(0, std::min(last, sequence.n_computed_most) - first);
    sequence.n_computed_most = std::max(sequence.n_computed_most, last);
    // Others may go on from a prompt as soon as its pages are there.
    if (first < sequence.n_prompt) kv_.publish(sequence.kv);
  }
  std::vector<const KvSequence*> live;
  for (const auto& sequence : running_) {
    live.push_back(&sequence->kv);
    for (const KvSequence& branch : sequence->drafts.branches) live.push_back(&branch);
  }
  const KvStats pages = kv_.stats();
  const int64_t n_slots = (pages.n_private + pages.n_locked) * kv_.page_size();
  metrics_.count_slots(n_slots, n_slots - kv_.unused_tokens(live));
}

void Scheduler::fork(Sequence& parent, std::unique_ptr<Sequence> child) {
  LOCI_CHECK(is_running(&parent), "a sequence that does not run is forked");
  child->cache = parent.cache;
  child->admitted = true;
  child->waited_ms = parent.waited_ms;
  child->counted_ms = parent.counted_ms;
  child->last_turn = parent.last_turn;
  if (n_running() >= limits_.max_sequences) return waiting_.push_back(std::move(child));
  child->kv = kv_.fork(parent.kv);
  running_.push_back(std::move(child));
}

std::unique_ptr<Sequence> Scheduler::remove(Sequence* sequence, bool keep_cache) {
  std::unique_ptr<Sequence> taken;
  for (auto* list : {&running_, &waiting_}) {
    const auto it = std::find_if(list->begin(), list->end(), [&](const auto& s) { return s.get() == sequence; });
    if (it == list->end()) continue;
    taken = std::move(*it);
    list->erase(it);
    break;
  }
  LOCI_CHECK(taken != nullptr, "unknown sequence");
  drop_drafts(taken->drafts, kv_);
  if (taken->host) kv_.discard(std::move(*taken->host));
  taken->host.reset();
  if (keep_cache) {
    kv_.keep(std::move(taken->kv));
  } else {
    kv_.release(std::move(taken->kv));
  }
  return taken;
}

int64_t Scheduler::n_queued() const {
  return std::count_if(waiting_.begin(), waiting_.end(), [](const auto& s) { return !s->admitted; });
}

std::vector<Sequence*> Scheduler::decoding() const {
  std::vector<Sequence*> found;
  for (const auto& sequence : running_) {
    if (sequence->decodes()) found.push_back(sequence.get());
  }
  return found;
}

std::vector<Sequence*> Scheduler::sequences() const {
  std::vector<Sequence*> all;
  for (const auto& sequence : running_) all.push_back(sequence.get());
  for (const auto& sequence : waiting_) all.push_back(sequence.get());
  return all;
}

void Scheduler::check_invariants() const {
  std::vector<const KvSequence*> live;
  for (const auto& sequence : running_) {
    live.push_back(&sequence->kv);
    for (const KvSequence& branch : sequence->drafts.branches) live.push_back(&branch);
  }
  for (const auto& sequence : waiting_) {
    LOCI_CHECK(sequence->kv.pages.empty(), "a waiting sequence holds pages");
    LOCI_CHECK(sequence->drafts.empty(), "a waiting sequence has drafts");
  }
  kv_.check_invariants(live);
}

}  // namespace loci
