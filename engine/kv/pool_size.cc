#include "engine/kv/pool_size.h"

#include <algorithm>

#include "engine/memory.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr int64_t kMaxPages = INT32_MAX;

}  // namespace

int64_t pool_pages(const PoolNeeds& needs) {
  const bool known = needs.available_bytes >= 0;
  if (needs.budget_bytes > 0) {
    const int64_t n_pages = std::min(needs.budget_bytes / needs.page_bytes, kMaxPages);
    if (n_pages == 0) {
      fail(ErrorKind::kInvalidInput, "--kv-budget: expected at least ", bytes_text(needs.page_bytes), " (a page of ",
           needs.page_size, " tokens), found ", bytes_text(needs.budget_bytes));
    }
    if (known && n_pages * needs.page_bytes > needs.available_bytes) {
      fail(ErrorKind::kOutOfMemory, "--kv-budget of ", bytes_text(needs.budget_bytes), ": only ",
           bytes_text(needs.available_bytes), " are available");
    }
    return n_pages;
  }
  const int64_t context_pages = (needs.n_ctx + needs.page_size - 1) / needs.page_size;
  if (!known) return std::min(context_pages, kMaxPages);
  if (context_pages * needs.page_bytes > needs.available_bytes) {
    const int64_t fitting = needs.available_bytes / 10 * 9 / needs.page_bytes * needs.page_size;
    fail(ErrorKind::kOutOfMemory, "K/V cache of ", needs.n_ctx, " tokens needs ",
         bytes_text(context_pages * needs.page_bytes), ", ", bytes_text(needs.available_bytes), " are available; ",
         fitting > 0 ? str("a context of ", fitting, " tokens (-c ", fitting, ") would fit")
                     : str("no context would fit"));
  }
  const int64_t affordable = std::max(context_pages, needs.available_bytes / 2 / needs.page_bytes);
  return std::min({context_pages * needs.max_sequences, affordable, kMaxPages});
}

}  // namespace loci
