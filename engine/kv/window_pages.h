// WindowPages: where layers with a sliding window keep their K/V. Such a layer never looks further back than its
// window, so it has pages of its own, and fewer of them: one is attached to a page of the PagePool, for the same
// tokens, while a live sequence needs it, and after that until it is wanted elsewhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace loci {

// Invariants: a window page is either free or attached to exactly one page. An attached page is pinned (by live
// sequences, each once) or idle; only idle ones are detached to serve another page, least recently unpinned first.
class WindowPages {
 public:
  // n_pages: of the PagePool. n_window_pages = 0: there are no layers with pages of their own.
  WindowPages(int32_t n_pages, int32_t n_window_pages);

  bool exists() const { return !attached_.empty(); }
  // The window page of `page`; -1: it has none.
  int32_t of(int32_t page) const { return attached_[static_cast<size_t>(page)]; }

  // Attaches a window page, pinned once. False when all of them are pinned.  REQUIRES: page has none.
  [[nodiscard]] bool attach(int32_t page);
  // One pin more.  REQUIRES: page has a window page.
  void pin(int32_t page);
  // One pin less. `keep`: without pins it stays as an idle one, as long as nobody wants it; else it is freed.
  void unpin(int32_t page, bool keep);
  // `to` holds what `from` does: it gets the pins, and the window page if it has none.
  void hand_over(int32_t from, int32_t to);
  // Frees the window page, if there is one.  REQUIRES: it has no pins.
  void drop(int32_t page);

  int32_t n_pages() const { return static_cast<int32_t>(n_window_pages_); }
  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t n_ever_used() const { return n_ever_used_; }  // all from this number on were always free
  int32_t n_idle() const { return static_cast<int32_t>(idle_.size()); }
  int32_t n_available() const { return n_free() + n_idle(); }
  int32_t pins(int32_t page) const { return pins_[static_cast<size_t>(page)]; }
  int64_t n_evicted() const { return n_evicted_; }  // idle ones detached for another page, since the start
  void check_invariants() const;

 private:
  void make_idle(int32_t page);
  void detach(int32_t page);

  int64_t n_window_pages_;
  int32_t n_ever_used_ = 0;
  std::vector<int32_t> attached_;    // [n_pages] window page, or -1
  std::vector<int32_t> pins_;        // [n_pages]
  std::vector<int64_t> idle_since_;  // [n_pages] by a clock that counts; 0: not idle
  std::map<int64_t, int32_t> idle_;  // idle_since -> page
  std::vector<int32_t> free_;        // window pages; a stack, as in PagePool
  int64_t clock_ = 0, n_evicted_ = 0;
};

}  // namespace loci
