#define XXH_INLINE_ALL
#include "main/batch_ledger.h"

#include <xxhash.h>

#include <cstdio>

namespace loci::cli {

std::string stable_id(std::initializer_list<std::string_view> parts) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const std::string_view part : parts) {
    const uint64_t size = part.size();
    XXH3_128bits_update(&state, &size, sizeof size);
    XXH3_128bits_update(&state, part.data(), part.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

uint64_t stable_number(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

BatchLedger::Key BatchLedger::key_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.low64, hash.high64};
}

void BatchLedger::add_result(std::string_view custom_id, std::string_view request_id, bool failed) {
  Entry& entry = entries_[key_of(custom_id)];
  if (entry.has_result) {
    ++n_repeated_;
    if (failed || !entry.failed) return;
    --n_failed_;  // answered after all
  }
  entry.has_result = true;
  entry.failed = failed;
  entry.request = stable_number(request_id);
  ++(failed ? n_failed_ : n_done_);
}

void BatchLedger::add_duplicate(std::string_view request_id) {
  duplicates_.insert(stable_number(request_id));
  ++n_failed_;
}

BatchLedger::Answer BatchLedger::look_up(std::string_view custom_id, std::string_view content) {
  Entry& entry = entries_[key_of(custom_id)];
  Answer answer;
  answer.request_id = "batch_req_" + stable_id({custom_id, content, std::to_string(entry.n_met)});
  const uint64_t request = stable_number(answer.request_id);
  if (++entry.n_met > 1) {
    answer.verdict = duplicates_.contains(request) ? Verdict::kDuplicateTold : Verdict::kDuplicate;
  } else if (entry.has_result) {
    answer.verdict = entry.failed ? Verdict::kFailed : Verdict::kDone;
    answer.changed = entry.request != request;
  }
  return answer;
}

}  // namespace loci::cli
