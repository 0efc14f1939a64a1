// How many pages the K/V pools get: from --kv-budget, or from what the machine has left.
#pragma once
#include <cstdint>

namespace loci {

struct PoolNeeds {
  int64_t page_bytes = 0;  // over the layers that keep all their tokens
  int page_size = 0;       // tokens
  int64_t n_ctx = 0;       // tokens of one context
  int max_sequences = 1;
  int64_t budget_bytes = 0;      // what was asked for; 0: automatic
  int64_t available_bytes = -1;  // memory left; -1: unknown

  // Layers that keep the last `window` tokens alone; window_page_bytes = 0: there are none.
  int64_t window_page_bytes = 0;
  int64_t window = 0;    // tokens
  int64_t max_rows = 0;  // of one step, over all sequences
};

struct PoolPages {
  int64_t n_pages = 0;
  int64_t n_window_pages = 0;  // for layers with pages of their own
};

// Window pages beside n_pages pages: a window for each sequence, the rows of a step, and at least a quarter of n_pages
// for windows of cached prefixes; never more than n_pages.
int64_t window_pages_beside(const PoolNeeds& needs, int64_t n_pages);
// Bytes of both.
int64_t pool_bytes(const PoolNeeds& needs, int64_t n_pages);

// Automatic: a context for each sequence as long as that is no more than half of the available memory, and one
// context in any case. A budget is taken as it is, and may hold less than a context. Throws Error with both numbers
// when memory does not suffice or the budget holds no page.
PoolPages pool_pages(const PoolNeeds& needs);

}  // namespace loci
