#include "engine/kv/kv_manager.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/check.h"

namespace loci {
namespace {

KvLayer make_layer(const KvLayerShape& shape, int page_size, int64_t n_pages) {
  KvLayer layer;
  layer.k_format = shape.k_format;
  layer.v_format = shape.v_format;
  layer.n_kv_heads = shape.n_kv_heads;
  layer.head_dim = shape.head_dim;
  layer.page_size = page_size;
  layer.n_pages = n_pages;
  return layer;
}

// Calls `piece(data, bytes)` for what a page (or window page) holds, in the order of page images.
template <typename Piece>
void for_each_piece(std::span<const KvLayer> layers, const std::vector<bool>& windowed, bool window, int32_t page,
                    Piece&& piece) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (windowed[i] != window) continue;
    const KvLayer& layer = layers[i];
    for (int head = 0; head < layer.n_kv_heads; ++head) {
      piece(layer.k_page(head, page), layer.k_page_bytes());
      piece(layer.v_page(head, page), layer.v_page_bytes());
    }
  }
}

void read_pieces(std::span<const KvLayer> layers, const std::vector<bool>& windowed, bool window, int32_t page,
                 std::span<std::byte> image) {
  std::byte* at = image.data();
  for_each_piece(layers, windowed, window, page, [&](const std::byte* data, size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  });
}

void write_pieces(std::span<const KvLayer> layers, const std::vector<bool>& windowed, bool window, int32_t page,
                  std::span<const std::byte> image) {
  const std::byte* at = image.data();
  for_each_piece(layers, windowed, window, page, [&](std::byte* data, size_t bytes) {
    std::memcpy(data, at, bytes);
    at += bytes;
  });
}

int64_t bytes_per_page(std::span<const KvLayerShape> layers, int page_size, bool window) {
  size_t bytes = 0;
  for (const KvLayerShape& shape : layers) {
    if ((shape.window > 0) == window) bytes += make_layer(shape, page_size, 1).total_bytes();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

std::vector<KvLayerShape> kv_layer_shapes(const ArchSpec& arch, const KvConfig& config) {
  const auto keeps_all = [](const LayerSpec& layer) { return layer.window == 0; };
  const bool mixed = std::any_of(arch.layers.begin(), arch.layers.end(), keeps_all) && !config.swa_full;
  std::vector<KvLayerShape> shapes;
  for (const LayerSpec& layer : arch.layers) {
    shapes.push_back({layer.n_kv_heads, layer.head_dim, config.k_format, config.v_format, mixed ? layer.window : 0});
  }
  return shapes;
}

std::vector<KvLayerShape> draft_kv_layer_shapes(const ArchSpec& arch, const KvConfig& config) {
  KvConfig all = config;
  all.swa_full = true;
  return kv_layer_shapes(arch, all);
}

int64_t kv_bytes_per_page(std::span<const KvLayerShape> layers, int page_size) {
  return bytes_per_page(layers, page_size, false);
}

int64_t kv_bytes_per_window_page(std::span<const KvLayerShape> layers, int page_size) {
  return bytes_per_page(layers, page_size, true);
}

int kv_window(std::span<const KvLayerShape> layers) {
  int window = 0;
  for (const KvLayerShape& shape : layers) window = std::max(window, shape.window);
  return window;
}

PoolNeeds kv_pool_needs(std::span<const KvLayerShape> layers, const EngineConfig& config) {
  int64_t max_rows = std::min(config.n_ubatch, config.n_batch);
  if (config.n_ctx > 0) max_rows = std::min(max_rows, config.n_ctx);
  return {.page_bytes = kv_bytes_per_page(layers, config.kv.page_size),
          .page_size = config.kv.page_size,
          .n_ctx = config.n_ctx,
          .max_sequences = config.max_sequences,
          .budget_bytes = config.kv.budget_bytes,
          .window_page_bytes = kv_bytes_per_window_page(layers, config.kv.page_size),
          .window = kv_window(layers),
          .max_rows = max_rows};
}

KvManager::KvManager(std::span<const KvLayerShape> layers, const KvConfig& config, PoolPages pages, Backend& backend)
    : config_(config),
      backend_(backend),
      page_bytes_(kv_bytes_per_page(layers, config.page_size)),
      window_page_bytes_(kv_bytes_per_window_page(layers, config.page_size)),
      window_(kv_window(layers)),
      pool_(static_cast<int32_t>(pages.n_pages), static_cast<int32_t>(pages.n_window_pages)),
      tree_(pool_, config.page_size) {
  LOCI_CHECK((window_ > 0) == (pages.n_window_pages > 0), "a window of ", window_, " tokens, ", pages.n_window_pages,
             " window pages");
  for (const KvLayerShape& shape : layers) {
    windowed_.push_back(shape.window > 0);
    layers_.push_back(make_layer(shape, config.page_size, shape.window > 0 ? pages.n_window_pages : pages.n_pages));
  }
  memory_ = std::make_unique<KvMemory>(layers_, backend);
}

int64_t KvManager::first_seen_page(int64_t n_tokens) const {
  return window_ == 0 ? 0 : std::max<int64_t>(0, n_tokens - window_ + 1) / config_.page_size;
}

int64_t KvManager::n_pinned(const KvSequence& sequence) const {
  return window_ == 0 ? 0 : static_cast<int64_t>(sequence.pages.size()) - sequence.first_pinned;
}

int64_t KvManager::n_window_pages_for(int64_t n_tokens) const {
  return window_ == 0 ? 0 : std::min(n_pages_for(n_tokens), n_pages_for(window_) + 1);
}

int64_t KvManager::bytes_of(const KvSequence& sequence) const {
  const auto n_tokens = static_cast<int64_t>(sequence.tokens.size());
  const int64_t n_in_windows = n_tokens - sequence.first_pinned * config_.page_size;
  return (n_tokens * page_bytes_ + (window_ > 0 ? n_in_windows * window_page_bytes_ : 0)) / config_.page_size;
}

// The most tokens, up to n_tokens, that a sequence on these pages can go on from.
int64_t KvManager::usable(std::span<const int32_t> pages, int64_t n_tokens) const {
  if (window_ == 0) return n_tokens;
  for (int64_t i = n_pages_for(n_tokens); i-- > first_seen_page(n_tokens);) {
    // A shorter prefix sees no less of the pages before its end, so it cannot reach into this one.
    if (window_page(pages[static_cast<size_t>(i)]) < 0) n_tokens = i * config_.page_size;
  }
  return n_tokens;
}

// Pins the window pages from pages[first] on, up to those pinned already.
void KvManager::pin_from(KvSequence& sequence, int64_t first) {
  if (window_ == 0) return;
  while (sequence.first_pinned > first) {
    pool_.window().pin(sequence.pages[static_cast<size_t>(--sequence.first_pinned)]);
  }
}

// Gives back the window pages that the next token does not see. Those of a sequence that others may go on from stay in
// memory as long as nobody wants them.
void KvManager::slide(KvSequence& sequence) {
  if (window_ == 0) return;
  const int64_t first = first_seen_page(static_cast<int64_t>(sequence.tokens.size()));
  for (; sequence.first_pinned < first; ++sequence.first_pinned) {
    const int32_t page = sequence.pages[static_cast<size_t>(sequence.first_pinned)];
    pool_.window().unpin(page, sequence.node != nullptr || pool_.references(page) > 1);
  }
}

// A live sequence on what the tree has found of `tokens`, without any window page.
KvSequence KvManager::take(RadixMatch&& found, std::span<const int32_t> tokens) {
  KvSequence sequence;
  sequence.node = found.node;
  sequence.n_tree_pages = static_cast<int64_t>(found.pages.size());
  sequence.pages = std::move(found.pages);
  tree_.lock(sequence.node);
  if (found.partial_page >= 0) sequence.pages.push_back(found.partial_page);
  for (const int32_t page : sequence.pages) pool_.share(page);
  const int64_t n_tokens = sequence.n_tree_pages * config_.page_size + found.n_partial;
  sequence.tokens.assign(tokens.begin(), tokens.begin() + n_tokens);
  sequence.first_pinned = static_cast<int64_t>(sequence.pages.size());
  return sequence;
}

// As far as its window pages are there, with these.
KvSequence KvManager::take_usable(RadixMatch&& found, std::span<const int32_t> tokens) {
  KvSequence sequence = take(std::move(found), tokens);
  truncate(sequence, static_cast<int64_t>(sequence.tokens.size()));
  return sequence;
}

KvMatch KvManager::match(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  const std::span<const int32_t> reusable = tokens.first(tokens.empty() ? 0 : tokens.size() - 1);
  RadixNode* root = tree_.root(ns);
  RadixMatch found = tree_.match(root, reusable);
  KvMatch result;
  result.report = tree_.explain(root, reusable, found);
  result.sequence = take_usable(std::move(found), reusable);
  if (const auto n_usable = static_cast<int64_t>(result.sequence.tokens.size()); n_usable < result.report.n_cached) {
    result.report = {.n_cached = n_usable, .cause = MissCause::kEvicted, .cached_there = {}};
  }
  ++stats_.n_matches;
  if (result.report.n_cached > 0) ++stats_.n_hits;
  stats_.n_prompt_tokens += static_cast<int64_t>(tokens.size());
  stats_.n_hit_tokens += result.report.n_cached;
  ++stats_.misses[static_cast<size_t>(result.report.cause)];
  return result;
}

int64_t KvManager::peek(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  const std::span<const int32_t> reusable = tokens.first(tokens.empty() ? 0 : tokens.size() - 1);
  if (window_ == 0) return tree_.peek(tree_.root(ns), reusable);
  std::vector<int32_t> pages;
  const int64_t n_tokens = tree_.peek(tree_.root(ns), reusable, &pages);
  return usable(pages, n_tokens);
}

KvMatch KvManager::uncached() {
  KvMatch result;
  result.report.cause = MissCause::kDisabled;
  return result;
}

KvSequence KvManager::find(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  return take_usable(tree_.match(tree_.root(ns), tokens), tokens);
}

// Pages of a sequence that no later token changes: only they may be shared.
int64_t KvManager::final_pages(const KvSequence& sequence) const {
  return static_cast<int64_t>(sequence.tokens.size()) / config_.page_size;
}

void KvManager::publish(KvSequence& sequence) {
  const int64_t n_pages = final_pages(sequence);
  if (sequence.node == nullptr || n_pages <= sequence.n_tree_pages) return;
  const auto first = static_cast<size_t>(sequence.n_tree_pages);
  const auto page_size = static_cast<size_t>(config_.page_size);
  const size_t n_new = static_cast<size_t>(n_pages) - first;
  RadixNode* node =
      tree_.insert(sequence.node, std::span(sequence.tokens).subspan(first * page_size, n_new * page_size),
                   std::span(sequence.pages).subspan(first, n_new));
  tree_.lock(node);
  tree_.unlock(std::exchange(sequence.node, node));
  sequence.n_tree_pages = n_pages;
}

void KvManager::copy_page(int32_t from, int32_t to) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int32_t src = windowed_[i] ? window_page(from) : from, dst = windowed_[i] ? window_page(to) : to;
    backend_.kv_copy_pages(layers_[i], std::span(&src, 1), std::span(&dst, 1));
  }
  ++stats_.n_copied_pages;
}

bool KvManager::reserve(KvSequence& sequence, int64_t n_tokens) {
  const auto n_used = static_cast<size_t>(sequence.tokens.size()) / static_cast<size_t>(config_.page_size);
  const bool into_partial = n_used < sequence.pages.size() &&
                            sequence.tokens.size() % static_cast<size_t>(config_.page_size) != 0 &&
                            n_tokens > static_cast<int64_t>(sequence.tokens.size());
  // Evicting the page's last other owner makes the copy needless.
  const auto must_copy = [&] { return into_partial && pool_.references(sequence.pages[n_used]) > 1; };
  const int64_t n_missing = std::max<int64_t>(0, n_pages_for(n_tokens) - static_cast<int64_t>(sequence.pages.size()));
  const auto n_wanted = [&] { return n_missing + (must_copy() ? 1 : 0); };
  // New pages get window pages, but for those that are filled from elsewhere and seen by no later token.
  const auto first_new = static_cast<int64_t>(sequence.pages.size());
  const int64_t n_windows =
      window_ == 0 ? 0 : n_missing - std::clamp<int64_t>(sequence.first_pinned - first_new, 0, n_missing);
  if (n_wanted() > n_available_pages() || n_windows > n_available_window_pages()) return false;
  while (n_wanted() > pool_.n_free()) {
    const int64_t n_evicted = tree_.evict(n_wanted() - pool_.n_free());
    if (n_evicted == 0) return false;
    stats_.n_evicted_pages += n_evicted;
  }
  const auto attach = [&](int32_t page) {
    LOCI_CHECK(pool_.window().attach(page), "no window page, though they were counted");
  };
  if (must_copy()) {
    if (window_ > 0 && n_windows + 1 > n_available_window_pages()) return false;
    const int32_t copy = *pool_.allocate(), shared = std::exchange(sequence.pages[n_used], copy);
    if (window_ > 0) attach(copy);
    copy_page(shared, copy);
    if (window_ > 0) pool_.window().unpin(shared, true);
    pool_.release(shared);
  }
  for (int64_t i = first_new; i < first_new + n_missing; ++i) {
    sequence.pages.push_back(*pool_.allocate());
    if (window_ > 0 && i >= sequence.first_pinned) attach(sequence.pages.back());
  }
  tell_memory();
  return true;
}

// Tells memory_ how far the pages in use have come, each time that they have come some way.
void KvManager::tell_memory() {
  constexpr int64_t kSteps = 64;
  const int64_t n_used = pool_.n_ever_used(), n_windows = pool_.window().n_ever_used();
  const int64_t step = std::max<int64_t>(1, (n_pages() + n_window_pages()) / kSteps);
  const bool all = n_used == n_pages() && n_windows == n_window_pages();
  if (n_used + n_windows == n_told_pages_ || (n_used + n_windows < n_told_pages_ + step && !all)) return;
  n_told_pages_ = n_used + n_windows;
  std::vector<int64_t> n_layer_pages;
  for (const bool windowed : windowed_) n_layer_pages.push_back(windowed ? n_windows : n_used);
  memory_->use(layers_, n_layer_pages);
}

bool KvManager::reserve_copy(KvSequence& sequence, int64_t n_tokens) {
  LOCI_CHECK(sequence.pages.empty(), "a sequence that has pages is to be filled");
  sequence.first_pinned = first_seen_page(n_tokens);
  if (reserve(sequence, n_tokens)) return true;
  sequence.first_pinned = 0;
  return false;
}

void KvManager::append(KvSequence& sequence, std::span<const int32_t> tokens) {
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  slide(sequence);
}

void KvManager::release_pages(KvSequence& sequence, size_t n_left) {
  for (size_t i = n_left; i < sequence.pages.size(); ++i) {
    const int32_t page = sequence.pages[i];
    if (window_ > 0 && static_cast<int64_t>(i) >= sequence.first_pinned) pool_.window().unpin(page, true);
    pool_.release(page);
  }
  sequence.pages.resize(n_left);
  sequence.first_pinned = std::min(sequence.first_pinned, static_cast<int64_t>(n_left));
}

void KvManager::truncate(KvSequence& sequence, int64_t n_tokens) {
  LOCI_CHECK(n_tokens >= 0 && n_tokens <= static_cast<int64_t>(sequence.tokens.size()), "truncated to ", n_tokens,
             " of ", sequence.tokens.size(), " tokens");
  n_tokens = usable(sequence.pages, n_tokens);
  sequence.tokens.resize(static_cast<size_t>(n_tokens));
  release_pages(sequence, std::min(sequence.pages.size(), static_cast<size_t>(n_pages_for(n_tokens))));
  pin_from(sequence, first_seen_page(n_tokens));
  slide(sequence);
  const int64_t n_whole = n_tokens / config_.page_size;
  if (n_whole >= sequence.n_tree_pages) return;
  RadixNode* node = tree_.shorten(sequence.node, sequence.n_tree_pages - n_whole);
  tree_.lock(node);
  tree_.unlock(std::exchange(sequence.node, node));
  sequence.n_tree_pages = n_whole;
}

KvSequence KvManager::fork(KvSequence& sequence) {
  publish(sequence);
  KvSequence other;
  other.tokens = sequence.tokens;
  other.pages.assign(sequence.pages.begin(),
                     sequence.pages.begin() + n_pages_for(static_cast<int64_t>(sequence.tokens.size())));
  for (const int32_t page : other.pages) pool_.share(page);
  other.first_pinned = static_cast<int64_t>(other.pages.size());
  pin_from(other, sequence.first_pinned);
  other.node = sequence.node;
  other.n_tree_pages = sequence.n_tree_pages;
  if (other.node != nullptr) tree_.lock(other.node);
  return other;
}

void KvManager::keep(KvSequence&& sequence) {
  LOCI_CHECK(n_pages_for(static_cast<int64_t>(sequence.tokens.size())) <= static_cast<int64_t>(sequence.pages.size()),
             "tokens without pages");
  publish(sequence);
  const auto n_whole = static_cast<size_t>(sequence.n_tree_pages);
  const std::span<const int32_t> tail =
      std::span(sequence.tokens).subspan(n_whole * static_cast<size_t>(config_.page_size));
  if (sequence.node != nullptr && !tail.empty()) tree_.insert_tail(sequence.node, tail, sequence.pages[n_whole]);
  release(std::move(sequence));
}

void KvManager::release(KvSequence&& sequence) {
  release_pages(sequence, 0);
  sequence.tokens.clear();
  sequence.n_tree_pages = 0;
  if (sequence.node != nullptr) tree_.unlock(std::exchange(sequence.node, nullptr));
}

std::optional<HostKv> KvManager::swap_out(KvSequence& sequence) {
  HostKv host;
  const int64_t n_pages = n_pages_for(static_cast<int64_t>(sequence.tokens.size()));
  host.first_page = sequence.n_tree_pages;
  RadixNode* node = sequence.node;
  for (; node != nullptr && node->parent != nullptr && node->n_locks == 1; node = node->parent) {
    host.first_page -= static_cast<int64_t>(node->pages.size());
  }
  host.first_window_page = window_ == 0 ? n_pages : std::min(sequence.first_pinned, n_pages);
  const int64_t bytes =
      (n_pages - host.first_page) * page_bytes_ + (n_pages - host.first_window_page) * window_page_bytes_;
  if (stats_.swapped_bytes + bytes > config_.swap_bytes) return std::nullopt;
  for (; node != nullptr; node = node->parent) host.root = node;
  host.data.resize(static_cast<size_t>(bytes));
  std::span<std::byte> rest(host.data);
  const auto next_image = [&](int64_t image_bytes) {
    const auto image = rest.first(static_cast<size_t>(image_bytes));
    rest = rest.subspan(image.size());
    return image;
  };
  for (int64_t i = host.first_page; i < n_pages; ++i) {
    read_page(sequence.pages[static_cast<size_t>(i)], next_image(page_bytes_));
  }
  for (int64_t i = host.first_window_page; i < n_pages; ++i) {
    read_window_page(sequence.pages[static_cast<size_t>(i)], next_image(window_page_bytes_));
  }
  stats_.swapped_bytes += bytes;
  stats_.n_swapped_out_pages += n_pages - host.first_page;
  host.tokens = sequence.tokens;
  release(std::move(sequence));
  return host;
}

std::span<const std::byte> KvManager::host_page(const HostKv& host, int64_t i) const {
  const auto bytes = static_cast<size_t>(page_bytes_);
  return std::span(host.data).subspan(static_cast<size_t>(i - host.first_page) * bytes, bytes);
}

std::span<const std::byte> KvManager::host_window_page(const HostKv& host, int64_t i) const {
  const auto bytes = static_cast<size_t>(window_page_bytes_);
  const int64_t n_before = n_pages_for(static_cast<int64_t>(host.tokens.size())) - host.first_page;
  return std::span(host.data).subspan(
      static_cast<size_t>(n_before * page_bytes_) + static_cast<size_t>(i - host.first_window_page) * bytes, bytes);
}

// The pages that a swapped sequence finds in the tree get the window pages that they have lost meanwhile. False when
// there are not enough.
bool KvManager::restore_window_pages(const HostKv& host, KvSequence& found) {
  if (window_ == 0) return true;
  while (found.first_pinned > host.first_window_page) {
    const auto i = static_cast<size_t>(found.first_pinned - 1);
    const int32_t page = found.pages[i];
    if (window_page(page) >= 0) {
      pool_.window().pin(page);
    } else {
      if (!pool_.window().attach(page)) return false;
      write_window_page(page, host_window_page(host, static_cast<int64_t>(i)));
    }
    --found.first_pinned;
  }
  found.first_pinned = host.first_window_page;
  return true;
}

bool KvManager::swap_in(HostKv& host, KvSequence& sequence) {
  KvSequence found;
  if (host.root != nullptr) {
    RadixMatch match = tree_.match(host.root, host.tokens);
    match.partial_page = -1;  // the host has it, and needs no copy
    match.n_partial = 0;
    found = take(std::move(match), host.tokens);
  }
  const int64_t n_found = found.n_tree_pages;
  if (n_found >= host.first_page) {
    const auto n_tokens = static_cast<int64_t>(host.tokens.size());
    if (!restore_window_pages(host, found) || !reserve(found, n_tokens)) {
      release(std::move(found));
      return false;
    }
    for (int64_t i = n_found; i < n_pages_for(n_tokens); ++i) {
      const auto page = static_cast<size_t>(i);
      write_page(found.pages[page], host_page(host, i));
      if (i >= host.first_window_page) write_window_page(found.pages[page], host_window_page(host, i));
      ++stats_.n_swapped_in_pages;
    }
    found.tokens = host.tokens;
  } else {
    truncate(found, static_cast<int64_t>(found.tokens.size()));
  }
  discard(std::move(host));
  sequence = std::move(found);
  return true;
}

void KvManager::discard(HostKv&& host) {
  stats_.swapped_bytes -= host.bytes();
  host = HostKv();
}

void KvManager::clear() { tree_.evict(tree_.n_evictable_pages()); }

KvStats KvManager::stats() const {
  KvStats stats = stats_;
  stats.n_pages = pool_.n_pages();
  stats.n_free = pool_.n_free();
  stats.n_cached = tree_.n_pages();
  stats.n_locked = tree_.n_locked_pages();
  stats.n_private = stats.n_pages - stats.n_free - stats.n_cached;
  stats.n_cached_tokens = tree_.n_tokens();
  const WindowPages& window = pool_.window();
  stats.n_window_pages = window.n_pages();
  stats.n_free_window = window.n_free();
  stats.n_idle_window = window.n_idle();
  stats.n_pinned_window = stats.n_window_pages - stats.n_free_window - stats.n_idle_window;
  stats.n_evicted_window_pages = window.n_evicted();
  return stats;
}

int64_t KvManager::unused_tokens(std::span<const KvSequence* const> live) const {
  int64_t n = 0;
  for (const KvSequence* sequence : live) {
    n += static_cast<int64_t>(sequence->pages.size()) * config_.page_size -
         static_cast<int64_t>(sequence->tokens.size());
  }
  return n;
}

void KvManager::read_page(int32_t page, std::span<std::byte> image) const {
  read_pieces(layers_, windowed_, false, page, image);
}

void KvManager::write_page(int32_t page, std::span<const std::byte> image) {
  write_pieces(layers_, windowed_, false, page, image);
}

void KvManager::read_window_page(int32_t page, std::span<std::byte> image) const {
  read_pieces(layers_, windowed_, true, window_page(page), image);
}

void KvManager::write_window_page(int32_t page, std::span<const std::byte> image) {
  write_pieces(layers_, windowed_, true, window_page(page), image);
}

void KvManager::check_invariants(std::span<const KvSequence* const> live) const {
  pool_.check_invariants();
  std::vector<RadixNode*> ends;
  std::map<int32_t, int32_t> references, pins;
  for (const KvSequence* sequence : live) {
    LOCI_CHECK(
        static_cast<int64_t>(sequence->pages.size()) >= n_pages_for(static_cast<int64_t>(sequence->tokens.size())),
        "tokens without pages");
    LOCI_CHECK(sequence->n_tree_pages <= final_pages(*sequence), "a page in the tree is being written");
    if (sequence->node != nullptr) {
      ends.push_back(sequence->node);
      const std::vector<int32_t> path = tree_.path_pages(sequence->node);
      LOCI_CHECK(static_cast<int64_t>(path.size()) == sequence->n_tree_pages &&
                     std::equal(path.begin(), path.end(), sequence->pages.begin()),
                 "a sequence's pages are not those of its path");
    }
    for (const int32_t page : sequence->pages) ++references[page];
    if (window_ == 0) continue;
    LOCI_CHECK(sequence->first_pinned == first_seen_page(static_cast<int64_t>(sequence->tokens.size())),
               "window pages from page ", sequence->first_pinned, " on, of ", sequence->tokens.size(), " tokens");
    for (auto i = static_cast<size_t>(sequence->first_pinned); i < sequence->pages.size(); ++i) {
      ++pins[sequence->pages[i]];
    }
  }
  tree_.check_invariants(ends);
  for (const int32_t page : tree_.pages()) ++references[page];
  for (int32_t page = 0; page < pool_.n_pages(); ++page) {
    const auto found = references.find(page);
    LOCI_CHECK(pool_.references(page) == (found == references.end() ? 0 : found->second), "references of page ", page);
    if (window_ == 0) continue;
    const auto pinned = pins.find(page);
    LOCI_CHECK(pool_.window().pins(page) == (pinned == pins.end() ? 0 : pinned->second), "pins of page ", page);
  }
  for (const KvSequence* sequence : live) {
    for (auto i = static_cast<size_t>(n_pages_for(static_cast<int64_t>(sequence->tokens.size())));
         i < sequence->pages.size(); ++i) {
      LOCI_CHECK(pool_.references(sequence->pages[i]) == 1, "a page being written is shared: ", sequence->pages[i]);
    }
  }
}

}  // namespace loci
