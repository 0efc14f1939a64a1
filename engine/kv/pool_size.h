// How many pages the K/V pool gets: from --kv-budget, or from what the machine has left.
#pragma once
#include <cstdint>

namespace loci {

struct PoolNeeds {
  int64_t page_bytes = 0;  // over all layers
  int page_size = 0;       // tokens
  int64_t n_ctx = 0;       // tokens of one context
  int max_sequences = 1;
  int64_t budget_bytes = 0;      // what was asked for; 0: automatic
  int64_t available_bytes = -1;  // memory left; -1: unknown
};

// Automatic: a context for each sequence as long as that is no more than half of the available memory, and one
// context in any case. A budget is taken as it is, and may hold less than a context. Throws Error with both numbers
// when memory does not suffice or the budget holds no page.
int64_t pool_pages(const PoolNeeds& needs);

}  // namespace loci
