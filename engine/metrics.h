// Metrics: what an engine has done, how long it took and what it holds. One plain struct; CLI, batch and server print
// from a copy of it (Engine::metrics()).
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "engine/request.h"

namespace loci {

// Values >= 0 counted in fixed buckets, four per power of two: a percentile is off by 19 % at most. Bucket i holds the
// values in [upper_bound(i - 1), upper_bound(i)); the first one also what lies below, the last one what lies above.
struct Histogram {
  static constexpr int kBuckets = 112;  // from 0.01 to 2.2 million

  std::array<int64_t, kBuckets> counts{};
  int64_t n = 0;
  double sum = 0, max = 0;

  static double upper_bound(int bucket);
  void add(double value);
  double mean() const { return n == 0 ? 0 : sum / static_cast<double>(n); }
  // The value that `percent` of 0..100 of the values lie at or below, interpolated in its bucket; 0 without values.
  double percentile(double percent) const;
};

struct Metrics {
  static constexpr int kFinishReasons = static_cast<int>(FinishReason::kError) + 1;
  static constexpr int kDraftPositions = 16;  // later ones are counted in the last

  // Requests; each sample of one with n > 1 counts.
  int64_t n_submitted = 0;
  int64_t n_refused = 0;                             // the queue was full
  std::array<int64_t, kFinishReasons> n_finished{};  // by FinishReason
  int64_t n_waiting = 0, n_running = 0;              // now

  // Tokens. A prompt's tokens are cached or computed; those computed again after a preemption count as recomputed.
  int64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_recomputed_tokens = 0, n_generated_tokens = 0;
  // Rows of forward passes: prompts (and what is computed again), and the newest token of each sequence.
  int64_t n_prefill_rows = 0, n_decode_rows = 0;
  int64_t n_steps = 0, n_abandoned_steps = 0;

  // K/V pages: now, and events since the start.
  int64_t pages_total = 0, pages_free = 0, pages_used = 0, pages_cached = 0;  // used: by live sequences
  // Of layers with a sliding window, if they have pages of their own: those that live sequences need, and idle ones.
  int64_t window_pages_total = 0, window_pages_free = 0, window_pages_used = 0, window_pages_cached = 0;
  int64_t n_evicted_window_pages = 0;
  int64_t n_hits = 0, n_misses = 0;  // prompts that found a prefix, and that did not
  int64_t n_evicted_pages = 0;
  int64_t n_preempted_recompute = 0, n_preempted_swap = 0, n_swapped_in = 0;
  int64_t swapped_bytes = 0;  // now in the host buffer
  // Token slots in pages that running sequences hold (a shared page counts once), and those of them that hold a token:
  // summed over steps, and of the step in which most were held.
  int64_t slot_steps_allocated = 0, slot_steps_used = 0;
  int64_t peak_slots_allocated = 0, peak_slots_used = 0;
  void count_slots(int64_t n_allocated, int64_t n_used);

  // Bytes of K/V that the model's attention has read (a draft model's not): in all steps, and in those without prompt
  // rows, which have brought so many tokens. 0 on a backend that does not count.
  int64_t kv_bytes_read = 0, decode_kv_bytes_read = 0, n_decode_step_tokens = 0;

  // Speculation: drafts verified and accepted, by position in their chain.
  std::array<int64_t, kDraftPositions> n_drafted{}, n_accepted{};

  // Milliseconds. Queue: from submit to admission. First token: from submit. Between tokens: of one request.
  Histogram queue_ms, first_token_ms, between_tokens_ms, step_ms;

  // Part of the allocated slots that held no token, 0..1: averaged over steps, and in the step with most of them.
  double kv_waste() const;
  double kv_waste_at_peak() const;
  // K/V bytes read for a generated token, in steps without prompt rows; 0: not known.
  double kv_bytes_per_token() const;
};

std::string_view name(FinishReason reason);
// The figures as lines of text, name first, without a last newline: for terminals and summaries.
std::string summary(const Metrics& metrics);
// "2.1 % of the allocated slots wasted (at the peak 1.0 %)".
std::string kv_waste_text(const Metrics& metrics);
// "1.20 GiB read, 45.1 KiB per generated token"; empty when it was not counted.
std::string kv_bytes_text(const Metrics& metrics);

}  // namespace loci
