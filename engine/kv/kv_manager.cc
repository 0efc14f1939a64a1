#include "engine/kv/kv_manager.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/check.h"

namespace loci {
namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

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

// Calls `piece(data, bytes)` for what a page holds, in the order of page images.
template <typename Piece>
void for_each_piece(std::span<const KvLayer> layers, int32_t page, Piece&& piece) {
  for (const KvLayer& layer : layers) {
    for (int head = 0; head < layer.n_kv_heads; ++head) {
      piece(layer.k_page(head, page), layer.k_page_bytes());
      piece(layer.v_page(head, page), layer.v_page_bytes());
    }
  }
}

}  // namespace

std::vector<KvLayerShape> kv_layer_shapes(const ArchSpec& arch, const KvConfig& config) {
  std::vector<KvLayerShape> shapes;
  for (const LayerSpec& layer : arch.layers) {
    shapes.push_back({layer.n_kv_heads, layer.head_dim, config.k_format, config.v_format});
  }
  return shapes;
}

int64_t kv_bytes_per_page(std::span<const KvLayerShape> layers, int page_size) {
  size_t bytes = 0;
  for (const KvLayerShape& shape : layers) bytes += make_layer(shape, page_size, 1).total_bytes();
  return static_cast<int64_t>(bytes);
}

KvManager::KvManager(std::span<const KvLayerShape> layers, const KvConfig& config, int64_t n_pages, Backend& backend)
    : config_(config),
      backend_(backend),
      page_bytes_(kv_bytes_per_page(layers, config.page_size)),
      pool_(static_cast<int32_t>(n_pages)),
      tree_(pool_, config.page_size) {
  size_t total = 0;
  for (const KvLayerShape& shape : layers) {
    layers_.push_back(make_layer(shape, config.page_size, n_pages));
    total += aligned(layers_.back().total_bytes());
  }
  memory_ = backend.allocate(total);
  bytes_ = static_cast<int64_t>(total);
  std::byte* base = memory_.get();
  for (KvLayer& layer : layers_) {
    layer.base = base;
    base += aligned(layer.total_bytes());
  }
}

// A live sequence on what the tree has found of `tokens`.
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
  return sequence;
}

KvMatch KvManager::match(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  const std::span<const int32_t> reusable = tokens.first(tokens.empty() ? 0 : tokens.size() - 1);
  RadixNode* root = tree_.root(ns);
  RadixMatch found = tree_.match(root, reusable);
  KvMatch result;
  result.report = tree_.explain(root, reusable, found);
  result.sequence = take(std::move(found), reusable);
  ++stats_.n_matches;
  if (result.report.n_cached > 0) ++stats_.n_hits;
  stats_.n_prompt_tokens += static_cast<int64_t>(tokens.size());
  stats_.n_hit_tokens += result.report.n_cached;
  ++stats_.misses[static_cast<size_t>(result.report.cause)];
  return result;
}

int64_t KvManager::peek(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  return tree_.peek(tree_.root(ns), tokens.first(tokens.empty() ? 0 : tokens.size() - 1));
}

KvMatch KvManager::uncached() {
  KvMatch result;
  result.report.cause = MissCause::kDisabled;
  return result;
}

KvSequence KvManager::find(std::span<const int32_t> tokens, const CacheNamespace& ns) {
  return take(tree_.match(tree_.root(ns), tokens), tokens);
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
  for (const KvLayer& layer : layers_) backend_.kv_copy_pages(layer, std::span(&from, 1), std::span(&to, 1));
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
  if (n_wanted() > n_available_pages()) return false;
  while (n_wanted() > pool_.n_free()) {
    const int64_t n_evicted = tree_.evict(n_wanted() - pool_.n_free());
    if (n_evicted == 0) return false;
    stats_.n_evicted_pages += n_evicted;
  }
  if (must_copy()) {
    const int32_t copy = *pool_.allocate();
    copy_page(sequence.pages[n_used], copy);
    pool_.release(std::exchange(sequence.pages[n_used], copy));
  }
  for (int64_t i = 0; i < n_missing; ++i) sequence.pages.push_back(*pool_.allocate());
  return true;
}

void KvManager::release_pages(KvSequence& sequence, size_t n_left) {
  for (size_t i = n_left; i < sequence.pages.size(); ++i) pool_.release(sequence.pages[i]);
  sequence.pages.resize(n_left);
}

void KvManager::truncate(KvSequence& sequence, int64_t n_tokens) {
  LOCI_CHECK(n_tokens >= 0 && n_tokens <= static_cast<int64_t>(sequence.tokens.size()), "truncated to ", n_tokens,
             " of ", sequence.tokens.size(), " tokens");
  sequence.tokens.resize(static_cast<size_t>(n_tokens));
  release_pages(sequence, std::min(sequence.pages.size(), static_cast<size_t>(n_pages_for(n_tokens))));
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
  const int64_t bytes = (n_pages - host.first_page) * page_bytes_;
  if (stats_.swapped_bytes + bytes > config_.swap_bytes) return std::nullopt;
  for (; node != nullptr; node = node->parent) host.root = node;
  host.data.resize(static_cast<size_t>(bytes));
  const auto image_bytes = static_cast<size_t>(page_bytes_);
  for (int64_t i = host.first_page; i < n_pages; ++i) {
    read_page(sequence.pages[static_cast<size_t>(i)],
              std::span(host.data).subspan(static_cast<size_t>(i - host.first_page) * image_bytes, image_bytes));
  }
  stats_.swapped_bytes += bytes;
  stats_.n_swapped_out_pages += n_pages - host.first_page;
  host.tokens = sequence.tokens;
  release(std::move(sequence));
  return host;
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
    if (!reserve(found, n_tokens)) {
      release(std::move(found));
      return false;
    }
    const auto image_bytes = static_cast<size_t>(page_bytes_);
    for (int64_t i = n_found; i < n_pages_for(n_tokens); ++i) {
      write_page(found.pages[static_cast<size_t>(i)],
                 std::span(host.data).subspan(static_cast<size_t>(i - host.first_page) * image_bytes, image_bytes));
      ++stats_.n_swapped_in_pages;
    }
    found.tokens = host.tokens;
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
  std::byte* at = image.data();
  for_each_piece(layers_, page, [&](const std::byte* data, size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  });
}

void KvManager::write_page(int32_t page, std::span<const std::byte> image) {
  const std::byte* at = image.data();
  for_each_piece(layers_, page, [&](std::byte* data, size_t bytes) {
    std::memcpy(data, at, bytes);
    at += bytes;
  });
}

void KvManager::check_invariants(std::span<const KvSequence* const> live) const {
  pool_.check_invariants();
  std::vector<RadixNode*> ends;
  std::map<int32_t, int32_t> references;
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
  }
  tree_.check_invariants(ends);
  for (const int32_t page : tree_.pages()) ++references[page];
  for (int32_t page = 0; page < pool_.n_pages(); ++page) {
    const auto found = references.find(page);
    LOCI_CHECK(pool_.references(page) == (found == references.end() ? 0 : found->second), "references of page ", page);
  }
  for (const KvSequence* sequence : live) {
    for (auto i = static_cast<size_t>(n_pages_for(static_cast<int64_t>(sequence->tokens.size())));
         i < sequence->pages.size(); ++i) {
      LOCI_CHECK(pool_.references(sequence->pages[i]) == 1, "a page being written is shared: ", sequence->pages[i]);
    }
  }
}

}  // namespace loci
