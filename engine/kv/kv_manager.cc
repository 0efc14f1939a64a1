#include "engine/kv/kv_manager.h"

#include <algorithm>
#include <map>

#include "kernels/check.h"

namespace loci {
namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

KvLayer layer_shape(const LayerSpec& spec, const KvConfig& config, int64_t n_pages) {
  KvLayer layer;
  layer.k_format = config.k_format;
  layer.v_format = config.v_format;
  layer.n_kv_heads = spec.n_kv_heads;
  layer.head_dim = spec.head_dim;
  layer.page_size = config.page_size;
  layer.n_pages = n_pages;
  return layer;
}

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

}  // namespace

int64_t kv_bytes_per_page(const ArchSpec& arch, const KvConfig& config) {
  size_t bytes = 0;
  for (const LayerSpec& spec : arch.layers) bytes += layer_shape(spec, config, 1).total_bytes();
  return static_cast<int64_t>(bytes);
}

KvManager::KvManager(const ArchSpec& arch, const KvConfig& config, int64_t n_tokens, int n_spare, Backend& backend)
    : config_(config), backend_(backend), pool_(static_cast<int32_t>(n_pages_for(n_tokens) + n_spare)) {
  size_t total = 0;
  for (const LayerSpec& spec : arch.layers) {
    layers_.push_back(layer_shape(spec, config, pool_.n_pages()));
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

std::optional<int32_t> KvManager::allocate_or_evict() {
  while (true) {
    if (std::optional<int32_t> page = pool_.allocate()) return page;
    if (kept_.empty()) return std::nullopt;
    KvSequence oldest = std::move(kept_.back());
    kept_.pop_back();
    release(std::move(oldest));
  }
}

KvSequence KvManager::match(std::span<const int32_t> tokens) {
  auto best = kept_.end();
  size_t n_match = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const size_t n = common_prefix(it->tokens, tokens);
    if (n > n_match) best = it, n_match = n;
  }
  KvSequence sequence;
  if (best == kept_.end()) return sequence;
  kept_.splice(kept_.begin(), kept_, best);  // used now: evicted last

  const auto page_size = static_cast<size_t>(config_.page_size);
  const size_t n_full = n_match / page_size;
  for (size_t i = 0; i < n_full; ++i) {
    pool_.share(best->pages[i]);
    sequence.pages.push_back(best->pages[i]);
  }
  size_t n_cached = n_full * page_size;
  // The page that the prefixes share in part is copied, as the new sequence writes into it. Without a free page its
  // tokens are computed again instead.
  if (n_match > n_cached) {
    if (const std::optional<int32_t> copy = pool_.allocate()) {
      for (const KvLayer& layer : layers_) {
        backend_.kv_copy_pages(layer, std::span(&best->pages[n_full], 1), std::span(&*copy, 1));
      }
      sequence.pages.push_back(*copy);
      n_cached = n_match;
    }
  }
  sequence.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n_cached));
  return sequence;
}

bool KvManager::reserve(KvSequence& sequence, int64_t n_tokens) {
  const auto wanted = static_cast<size_t>(n_pages_for(n_tokens));
  const size_t had = sequence.pages.size();
  while (sequence.pages.size() < wanted) {
    const std::optional<int32_t> page = allocate_or_evict();
    if (!page) {
      for (size_t i = had; i < sequence.pages.size(); ++i) pool_.release(sequence.pages[i]);
      sequence.pages.resize(had);
      return false;
    }
    sequence.pages.push_back(*page);
  }
  return true;
}

void KvManager::keep(KvSequence&& sequence) {
  const auto used = static_cast<size_t>(n_pages_for(static_cast<int64_t>(sequence.tokens.size())));
  LOCI_CHECK(used <= sequence.pages.size(), "tokens without pages");
  for (size_t i = used; i < sequence.pages.size(); ++i) pool_.release(sequence.pages[i]);
  sequence.pages.resize(used);
  if (sequence.tokens.empty()) return;
  // A kept sequence that is a prefix of this one can serve nothing that this one cannot.
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto next = std::next(it);
    if (common_prefix(it->tokens, sequence.tokens) == it->tokens.size()) {
      release(std::move(*it));
      kept_.erase(it);
    }
    it = next;
  }
  kept_.push_front(std::move(sequence));
}

void KvManager::release(KvSequence&& sequence) {
  for (const int32_t page : sequence.pages) pool_.release(page);
  sequence.pages.clear();
  sequence.tokens.clear();
}

void KvManager::clear() {
  for (KvSequence& sequence : kept_) release(std::move(sequence));
  kept_.clear();
}

void KvManager::check_invariants(std::span<const KvSequence* const> live) const {
  pool_.check_invariants();
  std::map<int32_t, int32_t> references;
  const auto count = [&](const KvSequence& sequence) {
    LOCI_CHECK(static_cast<int64_t>(sequence.pages.size()) >= n_pages_for(static_cast<int64_t>(sequence.tokens.size())),
               "tokens without pages");
    for (const int32_t page : sequence.pages) ++references[page];
  };
  for (const KvSequence& sequence : kept_) count(sequence);
  for (const KvSequence* sequence : live) count(*sequence);
  for (int32_t page = 0; page < pool_.n_pages(); ++page) {
    const auto found = references.find(page);
    LOCI_CHECK(pool_.references(page) == (found == references.end() ? 0 : found->second), "references of page ", page);
  }
  for (const KvSequence* sequence : live) {
    const size_t n_full = sequence->tokens.size() / static_cast<size_t>(config_.page_size);
    for (size_t i = n_full; i < sequence->pages.size(); ++i) {
      LOCI_CHECK(pool_.references(sequence->pages[i]) == 1, "a page being written is shared: ", sequence->pages[i]);
    }
  }
}

}  // namespace loci
