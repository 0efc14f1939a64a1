#include "engine/kv/page_pool.h"

#include <algorithm>

#include "kernels/check.h"

namespace loci {

PagePool::PagePool(int32_t n_pages, int32_t n_window_pages)
    : references_(static_cast<size_t>(n_pages), 0), window_(n_pages, n_window_pages) {
  free_.reserve(references_.size());
  for (int32_t page = n_pages; page-- > 0;) free_.push_back(page);
}

std::optional<int32_t> PagePool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t page = free_.back();
  free_.pop_back();
  n_ever_used_ = std::max(n_ever_used_, page + 1);
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::share(int32_t page) {
  LOCI_CHECK(page >= 0 && page < n_pages() && references(page) > 0, "shared page is not in use: ", page);
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(int32_t page) {
  LOCI_CHECK(page >= 0 && page < n_pages() && references(page) > 0, "page freed twice: ", page);
  if (--references_[static_cast<size_t>(page)] > 0) return;
  if (window_.exists()) window_.drop(page);
  free_.push_back(page);
}

void PagePool::check_invariants() const {
  window_.check_invariants();
  std::vector<bool> is_free(references_.size(), false);
  for (const int32_t page : free_) {
    LOCI_CHECK(page >= 0 && page < n_pages() && !is_free[static_cast<size_t>(page)],
               "page twice in the free list: ", page);
    is_free[static_cast<size_t>(page)] = true;
  }
  for (size_t page = 0; page < references_.size(); ++page) {
    LOCI_CHECK((references_[page] == 0) == is_free[page] && references_[page] >= 0,
               "page neither free nor in use: ", page);
    LOCI_CHECK(!window_.exists() || references_[page] > 0 || window_.of(static_cast<int32_t>(page)) < 0,
               "a free page has a window page: ", page);
  }
}

}  // namespace loci
