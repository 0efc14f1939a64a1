#include "engine/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/memory.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr double kLowest = 0.01;  // upper bound of the first bucket
constexpr double kPerOctave = 4;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

double unused_part(int64_t used, int64_t allocated) {
  return allocated > 0 ? 1 - static_cast<double>(used) / static_cast<double>(allocated) : 0;
}

template <typename... Values>
std::string line(const char* format, Values... values) {
  char text[240];
  std::snprintf(text, sizeof text, format, values...);
  return std::string(text) + '\n';
}

long long number(int64_t value) { return static_cast<long long>(value); }

std::string times(const char* label, const Histogram& h) {
  return line("%-15s p50 %.1f, p90 %.1f, p99 %.1f, most %.1f ms (%lld)", label, h.percentile(50), h.percentile(90),
              h.percentile(99), h.max, number(h.n));
}

}  // namespace

double Histogram::upper_bound(int bucket) { return kLowest * std::exp2(bucket / kPerOctave); }

void Histogram::add(double value) {
  const double position = std::floor(kPerOctave * std::log2(std::max(value, kLowest / 2) / kLowest)) + 1;
  auto bucket = static_cast<int>(std::clamp(position, 0.0, static_cast<double>(kBuckets - 1)));
  // The logarithm rounds: the bounds decide.
  if (bucket > 0 && value < upper_bound(bucket - 1)) --bucket;
  if (bucket < kBuckets - 1 && value >= upper_bound(bucket)) ++bucket;
  ++counts[static_cast<size_t>(bucket)];
  ++n;
  sum += value;
  max = std::max(max, value);
}

double Histogram::percentile(double percent) const {
  if (n == 0) return 0;
  const double wanted = std::max(1.0, percent / 100 * static_cast<double>(n));
  int64_t below = 0;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const int64_t count = counts[static_cast<size_t>(bucket)];
    if (count == 0 || static_cast<double>(below + count) < wanted) {
      below += count;
      continue;
    }
    const double low = bucket == 0 ? 0 : upper_bound(bucket - 1);
    const double high = bucket == kBuckets - 1 ? max : upper_bound(bucket);
    const double part = (wanted - static_cast<double>(below)) / static_cast<double>(count);
    return std::min(max, low + part * (high - low));
  }
  return max;
}

void Metrics::count_slots(int64_t n_allocated, int64_t n_used) {
  slot_steps_allocated += n_allocated;
  slot_steps_used += n_used;
  if (n_allocated < peak_slots_allocated) return;
  // Of steps that hold equally much, the one that wastes most.
  if (n_allocated > peak_slots_allocated || n_used < peak_slots_used) peak_slots_used = n_used;
  peak_slots_allocated = n_allocated;
}

double Metrics::kv_waste() const { return unused_part(slot_steps_used, slot_steps_allocated); }
double Metrics::kv_waste_at_peak() const { return unused_part(peak_slots_used, peak_slots_allocated); }

double Metrics::kv_bytes_per_token() const {
  return n_decode_step_tokens > 0
             ? static_cast<double>(decode_kv_bytes_read) / static_cast<double>(n_decode_step_tokens)
             : 0;
}

std::string kv_waste_text(const Metrics& m) {
  char text[120];
  std::snprintf(text, sizeof text, "%.1f %% of the allocated slots wasted (at the peak %.1f %%)", 100 * m.kv_waste(),
                100 * m.kv_waste_at_peak());
  return text;
}

std::string kv_bytes_text(const Metrics& m) {
  if (m.kv_bytes_read == 0) return "";
  std::string text = bytes_text(m.kv_bytes_read) + " read";
  if (m.n_decode_step_tokens > 0) {
    text += ", " + bytes_text(std::llround(m.kv_bytes_per_token())) + " per generated token";
  }
  return text;
}

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "end token";
    case FinishReason::kStopString:
      return "stop string";
    case FinishReason::kLimit:
      return "limit";
    case FinishReason::kContextFull:
      return "context full";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

std::string summary(const Metrics& m) {
  std::string text;
  int64_t n_finished = 0;
  std::string reasons;
  for (int i = 0; i < Metrics::kFinishReasons; ++i) {
    const int64_t count = m.n_finished[static_cast<size_t>(i)];
    n_finished += count;
    if (count > 0) reasons += str(reasons.empty() ? ": " : ", ", count, " ", name(static_cast<FinishReason>(i)));
  }
  text += line("%-15s %lld finished%s", "requests", number(n_finished), reasons.c_str());
  if (m.n_waiting + m.n_running > 0)
    text += line("%-15s %lld running, %lld waiting", "now", number(m.n_running), number(m.n_waiting));
  if (m.n_refused > 0) text += line("%-15s %lld, the queue was full", "refused", number(m.n_refused));
  text += line("%-15s %lld, of these %lld cached (%.1f %%)", "prompt tokens", number(m.n_prompt_tokens),
               number(m.n_cached_tokens),
               percent(static_cast<double>(m.n_cached_tokens), static_cast<double>(m.n_prompt_tokens)));
  text += line("%-15s %lld", "generated", number(m.n_generated_tokens));
  text += line("%-15s %lld, %lld abandoned; rows: %lld prefill, %lld decode", "steps", number(m.n_steps),
               number(m.n_abandoned_steps), number(m.n_prefill_rows), number(m.n_decode_rows));
  text += times("step", m.step_ms);
  text += times("queue", m.queue_ms);
  text += times("first token", m.first_token_ms);
  text += times("between tokens", m.between_tokens_ms);
  text += line("%-15s %lld of %lld used, %lld cached, %lld free; %lld evicted", "K/V pages", number(m.pages_used),
               number(m.pages_total), number(m.pages_cached), number(m.pages_free), number(m.n_evicted_pages));
  if (m.window_pages_total > 0) {
    text += line("%-15s %lld of %lld used, %lld cached, %lld free; %lld evicted", "window pages",
                 number(m.window_pages_used), number(m.window_pages_total), number(m.window_pages_cached),
                 number(m.window_pages_free), number(m.n_evicted_window_pages));
  }
  text += line("%-15s %s", "K/V waste", kv_waste_text(m).c_str());
  if (m.kv_bytes_read > 0) text += line("%-15s %s", "K/V traffic", kv_bytes_text(m).c_str());
  text += line("%-15s %lld hits, %lld misses", "prefixes", number(m.n_hits), number(m.n_misses));
  if (m.n_preempted_recompute + m.n_preempted_swap > 0) {
    text += line("%-15s %lld by recomputing (%lld tokens), %lld by swapping (%lld back)", "preempted",
                 number(m.n_preempted_recompute), number(m.n_recomputed_tokens), number(m.n_preempted_swap),
                 number(m.n_swapped_in));
  }
  if (m.n_drafted[0] > 0) {
    std::string positions;
    for (int i = 0; i < Metrics::kDraftPositions; ++i) {
      const auto drafted = static_cast<double>(m.n_drafted[static_cast<size_t>(i)]);
      const auto accepted = static_cast<double>(m.n_accepted[static_cast<size_t>(i)]);
      if (drafted > 0) positions += str(i == 0 ? "" : " ", static_cast<int>(std::lround(percent(accepted, drafted))));
    }
    text += line("%-15s %s %% by position", "drafts accepted", positions.c_str());
  }
  text.pop_back();
  return text;
}

}  // namespace loci
