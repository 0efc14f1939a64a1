// KvManager: the only cache object the scheduler sees. Owns the K/V memory of all layers, its pages, and the pages
// of finished sequences that later ones may continue from.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/kv/page_pool.h"
#include "engine/model/arch.h"
#include "kernels/backend.h"

namespace loci {

// The cached part of one sequence: K/V of tokens[0 .. tokens.size()) lie in `pages`, in order.
//   pages   [>= ceil(tokens / page_size)]; those past the tokens are reserved for what comes next
struct KvSequence {
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
};

// Bytes of one page over all layers.
int64_t kv_bytes_per_page(const ArchSpec& arch, const KvConfig& config);

// Invariants: every page is referenced once per KvSequence that lists it, live or kept; a page that a live sequence
// writes to is referenced by that sequence alone (only pages that are full in both are shared).
class KvManager {
 public:
  // Allocates pages for n_tokens tokens, and `n_spare` more for half-filled ones. Throws Error(kOutOfMemory).
  KvManager(const ArchSpec& arch, const KvConfig& config, int64_t n_tokens, int n_spare, Backend& backend);

  // A sequence holding the longest kept prefix of `tokens` (may be empty).
  KvSequence match(std::span<const int32_t> tokens);
  // Makes room for `n_tokens` tokens in all, dropping kept sequences (oldest use first) when pages are short.
  // False, with nothing changed for `sequence`, when that does not suffice.
  [[nodiscard]] bool reserve(KvSequence& sequence, int64_t n_tokens);
  // Ends a live sequence: keeps it for reuse, or frees its pages.
  void keep(KvSequence&& sequence);
  void release(KvSequence&& sequence);
  // Drops all kept sequences.
  void clear();
  // The sequence kept last, or nullptr.
  const KvSequence* latest() const { return kept_.empty() ? nullptr : &kept_.front(); }

  const KvLayer& layer(size_t i) const { return layers_[i]; }
  size_t n_layers() const { return layers_.size(); }
  int page_size() const { return config_.page_size; }
  int64_t n_free_pages() const { return pool_.n_free(); }
  int64_t n_pages() const { return pool_.n_pages(); }
  int64_t n_kept() const { return static_cast<int64_t>(kept_.size()); }
  int64_t bytes() const { return bytes_; }
  const KvConfig& config() const { return config_; }
  // `live`: all live sequences.
  void check_invariants(std::span<const KvSequence* const> live) const;

 private:
  int64_t n_pages_for(int64_t n_tokens) const { return (n_tokens + config_.page_size - 1) / config_.page_size; }
  std::optional<int32_t> allocate_or_evict();

  KvConfig config_;
  Backend& backend_;
  int64_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
  std::vector<KvLayer> layers_;
  PagePool pool_;
  std::list<KvSequence> kept_;  // most recently used first
};

}  // namespace loci
