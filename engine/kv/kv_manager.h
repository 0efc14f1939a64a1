// KvManager: the only cache object the scheduler sees. Owns the K/V memory of all layers, its pages, and the tree of
// prefixes that live and finished sequences share.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/config.h"
#include "engine/kv/cache_report.h"
#include "engine/kv/kv_memory.h"
#include "engine/kv/page_pool.h"
#include "engine/kv/pool_size.h"
#include "engine/kv/radix_tree.h"
#include "engine/model/arch.h"
#include "kernels/backend.h"

namespace loci {

// What a layer stores per token. A draft model's layers follow the target's: one page id addresses all of them. Layers
// with a sliding window, where they stand beside others, keep the tokens of the window alone (WindowPages).
struct KvLayerShape {
  int n_kv_heads = 0;
  int head_dim = 0;
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  int window = 0;  // tokens; 0: keeps all
};
// Of a target model. In a draft model, which may compute a prompt's K/V long after the target, all layers keep all.
std::vector<KvLayerShape> kv_layer_shapes(const ArchSpec& arch, const KvConfig& config);
std::vector<KvLayerShape> draft_kv_layer_shapes(const ArchSpec& arch, const KvConfig& config);

// Bytes of one page over the layers that keep all, and of one window page over the others.
int64_t kv_bytes_per_page(std::span<const KvLayerShape> layers, int page_size);
int64_t kv_bytes_per_window_page(std::span<const KvLayerShape> layers, int page_size);
// Tokens that window pages have to serve: the longest window; 0 without such layers.
int kv_window(std::span<const KvLayerShape> layers);
// What the layers, context, sequences and step of an engine ask of the pools, but for the memory left.
PoolNeeds kv_pool_needs(std::span<const KvLayerShape> layers, const EngineConfig& config);

// The cached part of one live sequence: K/V of tokens[0 .. tokens.size()) lie in `pages`, in order. Whoever computes
// a token tells it to append(), after reserve() made room for it. Ends with keep(), release() or swap_out().
// Layers with window pages have K/V of the last `window` - 1 tokens at least: what the next row sees.
struct KvSequence {
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;  // [>= ceil(tokens / page_size)]; those past the tokens are reserved for what comes next

  KvSequence() = default;
  KvSequence(KvSequence&& other) noexcept { *this = std::move(other); }
  KvSequence& operator=(KvSequence&& other) noexcept {
    tokens = std::exchange(other.tokens, {});
    pages = std::exchange(other.pages, {});
    node = std::exchange(other.node, nullptr);
    n_tree_pages = std::exchange(other.n_tree_pages, 0);
    first_pinned = std::exchange(other.first_pinned, 0);
    return *this;
  }

 private:
  friend class KvManager;
  RadixNode* node = nullptr;  // locked; its path is the first n_tree_pages pages. nullptr: shares with nobody
  int64_t n_tree_pages = 0;
  int64_t first_pinned = 0;  // pages[first_pinned ..) have window pages, pinned by this sequence
};

struct KvMatch {
  KvSequence sequence;
  CacheReport report;
};

// A sequence whose pages lie in host memory. Pages that others used when it was swapped out are not in it: they are
// looked for in the tree.
struct HostKv {
  std::vector<int32_t> tokens;

  int64_t bytes() const { return static_cast<int64_t>(data.size()); }

 private:
  friend class KvManager;
  RadixNode* root = nullptr;
  int64_t first_page = 0, first_window_page = 0;  // of the sequence's pages
  std::vector<std::byte> data;  // images of pages from first_page on, then of window pages from first_window_page on
};

struct KvStats {
  // Now. A page is free, cached (in the tree) or private to live sequences; cached ones are locked or evictable.
  int64_t n_pages = 0, n_free = 0, n_cached = 0, n_locked = 0, n_private = 0;
  // Window pages: free, pinned by live sequences, or idle (kept for prefixes as long as nobody wants them).
  int64_t n_window_pages = 0, n_free_window = 0, n_pinned_window = 0, n_idle_window = 0;
  int64_t n_cached_tokens = 0;  // tokens in the tree
  int64_t swapped_bytes = 0;    // in host memory
  // Since the start.
  int64_t n_matches = 0, n_hits = 0;
  int64_t n_prompt_tokens = 0, n_hit_tokens = 0;  // tokens asked for, tokens found
  std::array<int64_t, 6> misses{};                // by MissCause
  int64_t n_evicted_pages = 0, n_copied_pages = 0, n_swapped_out_pages = 0, n_swapped_in_pages = 0;
  int64_t n_evicted_window_pages = 0;  // idle ones, for others
};

// Invariants: every page is referenced once per live sequence that lists it and once more if the tree holds it. What
// a live sequence writes to after reserve() is referenced by that sequence alone. Pages in the tree are final: they
// hold the K/V of whole pages of tokens, or the tail of a finished sequence. The window pages from the first one that
// the next row sees to the last are pinned once per live sequence; no other window page is.
class KvManager {
 public:
  // Throws Error(kOutOfMemory).  REQUIRES: window pages if any layer has a window.
  KvManager(std::span<const KvLayerShape> layers, const KvConfig& config, PoolPages pages, Backend& backend);

  // A live sequence on the longest cached prefix of `tokens`, and why it is not longer. The last token is never
  // taken from the cache: without computing it there are no logits. A page of which only the first tokens agree is
  // shared too; reserve() copies it. A prefix serves only if the window pages before its end are still there: where
  // they were evicted, a shorter one is taken.
  KvMatch match(std::span<const int32_t> tokens, const CacheNamespace& ns);
  // How many tokens match() would find. Changes nothing, counts nothing.
  int64_t peek(std::span<const int32_t> tokens, const CacheNamespace& ns);
  // An empty sequence that neither takes from the cache nor is kept.
  static KvMatch uncached();
  // As match(), without leaving a token out, and not counted.
  KvSequence find(std::span<const int32_t> tokens, const CacheNamespace& ns);

  // Lets others share the whole pages computed so far, and takes over the tree's pages where it has the same ones.
  void publish(KvSequence& sequence);
  // Makes room for `n_tokens` tokens in all: afterwards slots [sequence.tokens.size(), n_tokens) may be written.
  // Evicts cached pages when free ones are short. False, with nothing changed for `sequence`, when that does not do.
  [[nodiscard]] bool reserve(KvSequence& sequence, int64_t n_tokens);
  // The same for an empty sequence whose K/V are all there already, elsewhere: window pages only where the token after
  // n_tokens looks. The caller writes pages and window pages, and then sets `tokens`.
  [[nodiscard]] bool reserve_copy(KvSequence& sequence, int64_t n_tokens);
  // The K/V of `tokens`, which go on behind the sequence's, have been computed. Window pages that no later token sees
  // are given back.
  void append(KvSequence& sequence, std::span<const int32_t> tokens);
  // Forgets the tokens from n_tokens on and gives back the pages past the end, those only reserved included. Behind
  // where the sequence has been given back window pages, it may have to forget more.
  void truncate(KvSequence& sequence, int64_t n_tokens);
  // A second sequence with the same tokens. Nothing is copied: the half-filled page is copied by the reserve() of
  // whoever writes to it first. Publishes `sequence`.
  KvSequence fork(KvSequence& sequence);
  // Ends a live sequence: keeps it for reuse down to its last token, or frees its pages.
  void keep(KvSequence&& sequence);
  void release(KvSequence&& sequence);

  // Moves a sequence to host memory, but for pages that other live sequences use as well. nullopt, with nothing
  // changed, when it does not fit the budget (KvConfig::swap_bytes).
  std::optional<HostKv> swap_out(KvSequence& sequence);
  // Brings it back into `sequence`, copying only what has left the tree. False, with nothing changed, when pages are
  // short. When pages that had been left in the tree were evicted, the sequence ends before them: the rest has to be
  // computed again.
  [[nodiscard]] bool swap_in(HostKv& host, KvSequence& sequence);
  void discard(HostKv&& host);

  // Drops all cached prefixes that no live sequence uses.
  void clear();

  const KvLayer& layer(size_t i) const { return layers_[i]; }
  std::span<const KvLayer> layers() const { return layers_; }
  size_t n_layers() const { return layers_.size(); }
  int page_size() const { return config_.page_size; }
  int64_t n_pages() const { return pool_.n_pages(); }
  int64_t n_free_pages() const { return pool_.n_free(); }
  // Free pages and those that reserve() could evict (a page shared in part counts until it is copied).
  int64_t n_available_pages() const { return pool_.n_free() + tree_.n_evictable_pages(); }
  int64_t n_window_pages() const { return pool_.window().n_pages(); }  // 0: no layer has pages of its own
  int64_t n_available_window_pages() const { return pool_.window().n_available(); }
  // Window pages that a sequence holds, and the most that one of n_tokens tokens holds between steps.
  int64_t n_pinned(const KvSequence& sequence) const;
  int64_t n_window_pages_for(int64_t n_tokens) const;
  int64_t n_pages_for(int64_t n_tokens) const { return (n_tokens + config_.page_size - 1) / config_.page_size; }
  int64_t bytes() const { return memory_->bytes(); }
  const KvMemory& memory() const { return *memory_; }
  const KvConfig& config() const { return config_; }
  KvStats stats() const;
  // Tokens for which `live` sequences hold pages without using them: at most page_size - 1 each, besides what they
  // reserved.
  int64_t unused_tokens(std::span<const KvSequence* const> live) const;

  // A layer's place for what it has of a page: the page itself, or its window page (-1: none).
  bool has_window_pages(size_t layer) const { return windowed_[layer]; }
  int32_t window_page(int32_t page) const { return pool_.window().of(page); }
  // Index of the first of a sequence's pages that the token after n_tokens sees in layers with a window.
  int64_t first_seen_page(int64_t n_tokens) const;

  // A page over the layers that keep all as one piece of bytes, for files and host memory; its window page likewise.
  // REQUIRES: the page has a window page.
  int64_t page_bytes() const { return page_bytes_; }
  int64_t window_page_bytes() const { return window_page_bytes_; }
  void read_page(int32_t page, std::span<std::byte> image) const;
  void write_page(int32_t page, std::span<const std::byte> image);
  void read_window_page(int32_t page, std::span<std::byte> image) const;
  void write_window_page(int32_t page, std::span<const std::byte> image);
  // Bytes that a sequence's tokens take.
  int64_t bytes_of(const KvSequence& sequence) const;

  // `live`: all live sequences.
  void check_invariants(std::span<const KvSequence* const> live) const;

 private:
  KvSequence take(RadixMatch&& found, std::span<const int32_t> tokens);
  KvSequence take_usable(RadixMatch&& found, std::span<const int32_t> tokens);
  int64_t usable(std::span<const int32_t> pages, int64_t n_tokens) const;
  void pin_from(KvSequence& sequence, int64_t first);
  void slide(KvSequence& sequence);
  std::span<const std::byte> host_page(const HostKv& host, int64_t i) const;
  std::span<const std::byte> host_window_page(const HostKv& host, int64_t i) const;
  bool restore_window_pages(const HostKv& host, KvSequence& found);
  int64_t final_pages(const KvSequence& sequence) const;
  void release_pages(KvSequence& sequence, size_t n_left);
  void copy_page(int32_t from, int32_t to);
  void tell_memory();

  KvConfig config_;
  Backend& backend_;
  int64_t page_bytes_ = 0, window_page_bytes_ = 0;
  int64_t window_ = 0;  // tokens; 0: no layer has window pages
  std::vector<KvLayer> layers_;
  std::vector<bool> windowed_;  // per layer: in window pages
  std::unique_ptr<KvMemory> memory_;
  int64_t n_told_pages_ = 0;  // pages in use for the first time that memory_ knows of
  PagePool pool_;
  RadixTree tree_;
  KvStats stats_;  // its counters and swapped_bytes
};

}  // namespace loci
