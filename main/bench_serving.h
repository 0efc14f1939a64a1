// A recorded workload run through the engine as a server would run it: requests arrive at their times, all that are
// there run together. Reports when each token came.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace loci::cli {

struct ServedRequest {
  std::string id;
  std::vector<int32_t> prompt;  // token ids
  int64_t max_tokens = 0;       // exactly so many are generated
  double at_ms = 0;             // when it arrives: after the start, or after the end of `after`
  std::string after;            // id of an earlier request, or empty
};

// One JSON object per line: id, prompt, max_tokens, and at_ms or after or both. Throws Error naming `source`, the
// line and what is wrong.
std::vector<ServedRequest> read_workload(std::istream& in, const std::string& source);

struct ServedResult {
  std::string id;
  bool refused = false;  // the queue was full when it arrived: there are no tokens
  RequestStats stats;
  std::vector<int32_t> tokens;
  double submitted_ms = 0;       // since the start, as all times
  std::vector<double> token_ms;  // one per token
  double finished_ms = 0;
};

// In the order of `requests`. Throws Error when one cannot be run.
std::vector<ServedResult> serve_workload(Engine& engine, const std::vector<ServedRequest>& requests,
                                         const Speculation& speculation = {});

// A line of JSON per request, then one with {"summary": ...}: sums, and what the engine says of itself.
std::string results_text(const std::vector<ServedResult>& results, const Metrics& metrics);

}  // namespace loci::cli
