#include "engine/kv/window_pages.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace loci {

WindowPages::WindowPages(int32_t n_pages, int32_t n_window_pages) : n_window_pages_(n_window_pages) {
  if (n_window_pages == 0) return;
  const auto n = static_cast<size_t>(n_pages);
  attached_.assign(n, -1);
  pins_.assign(n, 0);
  idle_since_.assign(n, 0);
  for (int32_t page = n_window_pages; page-- > 0;) free_.push_back(page);
}

void WindowPages::make_idle(int32_t page) {
  idle_since_[static_cast<size_t>(page)] = ++clock_;
  idle_.emplace(clock_, page);
}

void WindowPages::detach(int32_t page) {
  const auto at = static_cast<size_t>(page);
  LOCI_CHECK(pins_[at] == 0, "a pinned window page is freed: of page ", page);
  if (idle_since_[at] > 0) idle_.erase(std::exchange(idle_since_[at], 0));
  free_.push_back(std::exchange(attached_[at], -1));
}

bool WindowPages::attach(int32_t page) {
  const auto at = static_cast<size_t>(page);
  LOCI_CHECK(attached_[at] < 0, "page ", page, " has a window page already");
  if (free_.empty()) {
    if (idle_.empty()) return false;
    ++n_evicted_;
    detach(idle_.begin()->second);
  }
  attached_[at] = free_.back();
  free_.pop_back();
  n_ever_used_ = std::max(n_ever_used_, attached_[at] + 1);
  pins_[at] = 1;
  return true;
}

void WindowPages::pin(int32_t page) {
  const auto at = static_cast<size_t>(page);
  LOCI_CHECK(attached_[at] >= 0, "page ", page, " has no window page");
  if (pins_[at]++ == 0) idle_.erase(std::exchange(idle_since_[at], 0));
}

void WindowPages::unpin(int32_t page, bool keep) {
  const auto at = static_cast<size_t>(page);
  LOCI_CHECK(pins_[at] > 0, "unpinned twice: the window page of page ", page);
  if (--pins_[at] > 0) return;
  if (keep) {
    make_idle(page);
  } else {
    detach(page);
  }
}

void WindowPages::hand_over(int32_t from, int32_t to) {
  const auto source = static_cast<size_t>(from), target = static_cast<size_t>(to);
  const int32_t n_pins = std::exchange(pins_[source], 0);
  if (attached_[target] < 0) {
    if (attached_[source] < 0) return;
    if (idle_since_[source] > 0) idle_.erase(std::exchange(idle_since_[source], 0));
    attached_[target] = std::exchange(attached_[source], -1);
    if (n_pins == 0) make_idle(to);
  } else {
    if (attached_[source] >= 0) detach(from);
    if (n_pins > 0 && pins_[target] == 0) idle_.erase(std::exchange(idle_since_[target], 0));
  }
  pins_[target] += n_pins;
}

void WindowPages::drop(int32_t page) {
  if (attached_[static_cast<size_t>(page)] >= 0) detach(page);
}

void WindowPages::check_invariants() const {
  if (!exists()) return;
  std::vector<bool> used(static_cast<size_t>(n_window_pages_), false);
  const auto use = [&](int32_t window_page) {
    LOCI_CHECK(window_page >= 0 && window_page < n_window_pages_ && !used[static_cast<size_t>(window_page)],
               "window page used twice: ", window_page);
    used[static_cast<size_t>(window_page)] = true;
  };
  for (const int32_t window_page : free_) use(window_page);
  size_t n_idle = 0;
  for (size_t page = 0; page < attached_.size(); ++page) {
    if (attached_[page] >= 0) use(attached_[page]);
    LOCI_CHECK(pins_[page] >= 0 && (attached_[page] >= 0 || pins_[page] == 0), "pins without a window page: ", page);
    const bool is_idle = attached_[page] >= 0 && pins_[page] == 0;
    LOCI_CHECK((idle_since_[page] > 0) == is_idle, "idle or not: page ", page);
    if (!is_idle) continue;
    ++n_idle;
    const auto listed = idle_.find(idle_since_[page]);
    LOCI_CHECK(listed != idle_.end() && listed->second == static_cast<int32_t>(page), "the list of idle pages: ", page);
  }
  LOCI_CHECK(n_idle == idle_.size(), "idle window pages: ", idle_.size(), ", found ", n_idle);
  for (const bool one : used) LOCI_CHECK(one, "a window page is lost");
}

}  // namespace loci
