#include "engine/kv/pool_size.h"

#include <algorithm>

#include "engine/memory.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr int64_t kMaxPages = INT32_MAX;
// One window page for so many pages, at least: prefixes that are some windows long can be gone on from at their end.
constexpr int64_t kPagesPerWindowPage = 4;

int64_t pages_for(const PoolNeeds& needs, int64_t n_tokens) {
  return (n_tokens + needs.page_size - 1) / needs.page_size;
}

// The most pages that `bytes` pay for, window pages included.
int64_t pages_within(const PoolNeeds& needs, int64_t bytes) {
  int64_t low = 0, high = std::min(bytes / needs.page_bytes, kMaxPages);
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (pool_bytes(needs, middle) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

PoolPages with_window_pages(const PoolNeeds& needs, int64_t n_pages) {
  return {.n_pages = n_pages, .n_window_pages = window_pages_beside(needs, n_pages)};
}

}  // namespace

int64_t window_pages_beside(const PoolNeeds& needs, int64_t n_pages) {
  if (needs.window_page_bytes == 0) return 0;
  const int64_t per_sequence = pages_for(needs, needs.window) + 2;  // it may begin in the midst of a page; drafts
  const int64_t per_step = pages_for(needs, needs.max_rows) + 2;    // and a copy of a page that is shared in part
  return std::min(n_pages, std::max(needs.max_sequences * per_sequence + per_step, n_pages / kPagesPerWindowPage));
}

int64_t pool_bytes(const PoolNeeds& needs, int64_t n_pages) {
  return n_pages * needs.page_bytes + window_pages_beside(needs, n_pages) * needs.window_page_bytes;
}

PoolPages pool_pages(const PoolNeeds& needs) {
  const bool known = needs.available_bytes >= 0;
  if (needs.budget_bytes > 0) {
    const int64_t n_pages = pages_within(needs, needs.budget_bytes);
    if (n_pages == 0) {
      fail(ErrorKind::kInvalidInput, "--kv-budget: expected at least ", bytes_text(pool_bytes(needs, 1)),
           " (a page of ", needs.page_size, " tokens), found ", bytes_text(needs.budget_bytes));
    }
    if (known && pool_bytes(needs, n_pages) > needs.available_bytes) {
      fail(ErrorKind::kOutOfMemory, "--kv-budget of ", bytes_text(needs.budget_bytes), ": only ",
           bytes_text(needs.available_bytes), " are available");
    }
    return with_window_pages(needs, n_pages);
  }
  const int64_t context_pages = pages_for(needs, needs.n_ctx);
  if (!known) return with_window_pages(needs, std::min(context_pages, kMaxPages));
  if (pool_bytes(needs, context_pages) > needs.available_bytes) {
    const int64_t fitting = pages_within(needs, needs.available_bytes / 10 * 9) * needs.page_size;
    fail(ErrorKind::kOutOfMemory, "K/V cache of ", needs.n_ctx, " tokens needs ",
         bytes_text(pool_bytes(needs, context_pages)), ", ", bytes_text(needs.available_bytes), " are available; ",
         fitting > 0 ? str("a context of ", fitting, " tokens (-c ", fitting, ") would fit")
                     : str("no context would fit"));
  }
  const int64_t affordable = std::max(context_pages, pages_within(needs, needs.available_bytes / 2));
  return with_window_pages(needs, std::min({context_pages * needs.max_sequences, affordable, kMaxPages}));
}

}  // namespace loci
