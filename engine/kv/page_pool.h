// PagePool: the physical pages of the KV cache as numbers. One page id addresses the same page in every layer, but for
// layers with a sliding window: what they have for it lies in the window page attached to it (WindowPages).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/kv/window_pages.h"

namespace loci {

// Invariants: a page is either free (reference count 0, exactly once in the free list) or referenced (count >= 1,
// not in the free list).
class PagePool {
 public:
  explicit PagePool(int32_t n_pages, int32_t n_window_pages = 0);

  // A free page, now referenced once. nullopt when none is left.
  [[nodiscard]] std::optional<int32_t> allocate();
  // One more reference. REQUIRES: page is referenced.
  void share(int32_t page);
  // One reference less; the last one frees the page and its window page. REQUIRES: page is referenced.
  void release(int32_t page);

  int32_t n_pages() const { return static_cast<int32_t>(references_.size()); }
  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t n_ever_used() const { return n_ever_used_; }  // all pages from this number on were always free
  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  WindowPages& window() { return window_; }
  const WindowPages& window() const { return window_; }
  void check_invariants() const;

 private:
  std::vector<int32_t> references_;  // [n_pages]
  std::vector<int32_t> free_;        // a stack: the page freed last is handed out first, while caches still hold it
  int32_t n_ever_used_ = 0;
  WindowPages window_;
};

}  // namespace loci
