#include "engine/kv/radix_tree.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/check.h"

namespace loci {
namespace {

constexpr size_t kEvictedTable = 1 << 15;  // a newer page takes the place of an older one with the same remainder
constexpr size_t kMaxShown = 16;           // tokens of CacheReport::cached_there

uint64_t chain_hash(uint64_t before, std::span<const int32_t> page) {
  return XXH3_64bits_withSeed(page.data(), page.size_bytes(), before);
}

uint64_t namespace_hash(const CacheNamespace& ns) {
  const uint64_t parts[] = {ns.model, static_cast<uint64_t>(ns.k_format), static_cast<uint64_t>(ns.v_format)};
  return XXH3_64bits_withSeed(ns.variant.data(), ns.variant.size(), XXH3_64bits(parts, sizeof parts));
}

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first - a.begin();
}

template <typename T>
void append(std::vector<T>& to, std::span<const T> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Cuts the first n elements off `from`.
template <typename T>
std::vector<T> take_front(std::vector<T>& from, int64_t n) {
  std::vector<T> front(from.begin(), from.begin() + n);
  from.erase(from.begin(), from.begin() + n);
  return front;
}

int64_t count(const std::vector<int32_t>& values) { return static_cast<int64_t>(values.size()); }

}  // namespace

std::string_view name(MissCause cause) {
  switch (cause) {
    case MissCause::kNone:
      return "none";
    case MissCause::kEmpty:
      return "empty";
    case MissCause::kDiffers:
      return "differs";
    case MissCause::kEvicted:
      return "evicted";
    case MissCause::kOtherNamespace:
      return "other namespace";
    case MissCause::kDisabled:
      return "disabled";
  }
  return "";
}

std::span<const int32_t> FirstPageLess::key(const std::unique_ptr<RadixNode>& node) const {
  return std::span(node->tokens).first(std::min(node->tokens.size(), static_cast<size_t>(page_size)));
}

RadixTree::RadixTree(PagePool& pool, int page_size) : pool_(pool), page_size_(page_size), evicted_(kEvictedTable, 0) {}

// Leaf by leaf: a chat makes a long chain, which must not be freed by recursion.
RadixTree::~RadixTree() {
  for (auto& [ns, root] : roots_) {
    std::vector<std::unique_ptr<RadixNode>> open;
    open.push_back(std::move(root));
    while (!open.empty()) {
      const std::unique_ptr<RadixNode> node = std::move(open.back());
      open.pop_back();
      while (!node->children.empty()) {
        open.push_back(std::move(node->children.extract(node->children.begin()).value()));
      }
    }
  }
}

RadixNode* RadixTree::root(const CacheNamespace& ns) {
  std::unique_ptr<RadixNode>& root = roots_[ns];
  if (root == nullptr) {
    root = std::make_unique<RadixNode>(static_cast<int>(page_size_));
    root->root_hash = namespace_hash(ns);
    root->id = next_id_++;
  }
  return root.get();
}

uint64_t RadixTree::path_hash(const RadixNode* node) const {
  return node->parent == nullptr ? node->root_hash : node->hashes.back();
}

RadixNode* RadixTree::find_child(RadixNode* node, std::span<const int32_t> rest) const {
  if (static_cast<int64_t>(rest.size()) < page_size_) return nullptr;
  const auto it = node->children.find(rest.first(static_cast<size_t>(page_size_)));
  return it == node->children.end() ? nullptr : it->get();
}

// The closest ones in order are the neighbours of where `rest` would stand.
std::pair<RadixNode*, int64_t> RadixTree::closest_child(const RadixNode* node, std::span<const int32_t> rest) const {
  const std::span<const int32_t> key = rest.first(std::min(rest.size(), static_cast<size_t>(page_size_)));
  std::pair<RadixNode*, int64_t> best{nullptr, 0};
  const auto consider = [&](const std::unique_ptr<RadixNode>& child) {
    const int64_t n = common_prefix(child->tokens, key);
    if (n > best.second) best = {child.get(), n};
  };
  const auto after = node->children.lower_bound(key);
  if (after != node->children.end()) consider(*after);
  if (after != node->children.begin()) consider(*std::prev(after));
  return best;
}

int64_t RadixTree::equal_pages(const RadixNode* node, std::span<const int32_t> rest) const {
  return std::min(common_prefix(node->tokens, rest) / page_size_, count(node->pages));
}

void RadixTree::touch(RadixNode* node) {
  if (node->listed) evictable_.erase({node->last_use, node->id});
  node->last_use = clock_;
  if (node->listed) evictable_.emplace(std::pair(node->last_use, node->id), node);
}

void RadixTree::touch_path(RadixNode* node) {
  for (; node != nullptr; node = node->parent) touch(node);
}

void RadixTree::update_listed(RadixNode* node) {
  const bool wanted = node->parent != nullptr && node->children.empty() && node->n_locks == 0;
  if (wanted == node->listed) return;
  node->listed = wanted;
  if (wanted) {
    evictable_.emplace(std::pair(node->last_use, node->id), node);
  } else {
    evictable_.erase({node->last_use, node->id});
  }
}

RadixMatch RadixTree::match(RadixNode* root, std::span<const int32_t> tokens) {
  ++clock_;
  RadixMatch found;
  found.node = root;
  std::span<const int32_t> rest = tokens;
  while (RadixNode* child = find_child(found.node, rest)) {
    const int64_t n = equal_pages(child, rest);
    if (n < count(child->pages)) child = split(child, n);
    touch(child);
    append(found.pages, std::span<const int32_t>(child->pages));
    rest = rest.subspan(static_cast<size_t>(n * page_size_));
    found.node = child;
  }
  const auto [closest, n_common] = closest_child(found.node, rest);
  if (closest != nullptr) {
    touch(closest);
    found.partial_page = closest->pages.front();
    found.n_partial = n_common;
  }
  return found;
}

int64_t RadixTree::peek(const RadixNode* root, std::span<const int32_t> tokens, std::vector<int32_t>* pages) const {
  const RadixNode* node = root;
  std::span<const int32_t> rest = tokens;
  while (true) {
    const auto [child, n_common] = closest_child(node, rest);
    const int64_t n = n_common < page_size_ ? n_common : common_prefix(child->tokens, rest);
    if (pages != nullptr && n > 0) {
      const auto n_pages = static_cast<size_t>((n + page_size_ - 1) / page_size_);
      append(*pages, std::span<const int32_t>(child->pages).first(n_pages));
    }
    if (n < page_size_) return static_cast<int64_t>(tokens.size() - rest.size()) + n;
    rest = rest.subspan(static_cast<size_t>(n));
    if (n < count(child->tokens)) return static_cast<int64_t>(tokens.size() - rest.size());
    node = child;
  }
}

CacheReport RadixTree::explain(const RadixNode* root, std::span<const int32_t> tokens, const RadixMatch& found) const {
  CacheReport report;
  const int64_t n_whole = count(found.pages) * page_size_;
  report.n_cached = n_whole + found.n_partial;
  const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(n_whole));
  if (report.n_cached == static_cast<int64_t>(tokens.size())) return report;
  if (static_cast<int64_t>(rest.size()) >= page_size_) {
    const uint64_t hash = chain_hash(path_hash(found.node), rest.first(static_cast<size_t>(page_size_)));
    if (evicted_[hash % kEvictedTable] == hash) {
      report.cause = MissCause::kEvicted;
      return report;
    }
  }
  for (const auto& [ns, other] : roots_) {
    if (other.get() == root || peek(other.get(), tokens) <= report.n_cached) continue;
    report.cause = MissCause::kOtherNamespace;
    return report;
  }
  if (root->children.empty()) {
    report.cause = MissCause::kEmpty;
    return report;
  }
  const RadixNode* branch = nullptr;
  for (const auto& child : found.node->children) {
    const bool goes_on = count(child->tokens) > found.n_partial;
    if (!goes_on || common_prefix(child->tokens, rest) != found.n_partial) continue;
    if (branch == nullptr || child->last_use > branch->last_use) branch = child.get();
  }
  if (branch == nullptr) return report;
  report.cause = MissCause::kDiffers;
  report.first_difference = report.n_cached;
  std::span<const int32_t> there = std::span(branch->tokens).subspan(static_cast<size_t>(found.n_partial));
  while (branch != nullptr && report.cached_there.size() < kMaxShown) {
    append(report.cached_there, there.first(std::min(there.size(), kMaxShown - report.cached_there.size())));
    const auto newest = std::max_element(branch->children.begin(), branch->children.end(),
                                         [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
    branch = newest == branch->children.end() ? nullptr : newest->get();
    if (branch != nullptr) there = branch->tokens;
  }
  return report;
}

RadixNode* RadixTree::split(RadixNode* node, int64_t n_pages) {
  RadixNode* parent = node->parent;
  const auto it = parent->children.find(std::span<const int32_t>(node->tokens).first(static_cast<size_t>(page_size_)));
  std::unique_ptr<RadixNode> lower = std::move(parent->children.extract(it).value());
  auto upper = std::make_unique<RadixNode>(static_cast<int>(page_size_));
  upper->tokens = take_front(lower->tokens, n_pages * page_size_);
  upper->pages = take_front(lower->pages, n_pages);
  upper->hashes = take_front(lower->hashes, n_pages);
  upper->parent = parent;
  upper->n_locks = lower->n_locks;
  upper->last_use = lower->last_use;
  upper->id = next_id_++;
  lower->parent = upper.get();
  upper->children.insert(std::move(lower));
  return parent->children.insert(std::move(upper)).first->get();
}

RadixNode* RadixTree::add_child(RadixNode* parent, std::span<const int32_t> tokens, std::span<const int32_t> pages) {
  auto child = std::make_unique<RadixNode>(static_cast<int>(page_size_));
  append(child->tokens, tokens);
  append(child->pages, pages);
  uint64_t hash = path_hash(parent);
  for (std::span<const int32_t> rest = tokens; static_cast<int64_t>(rest.size()) >= page_size_;
       rest = rest.subspan(static_cast<size_t>(page_size_))) {
    hash = chain_hash(hash, rest.first(static_cast<size_t>(page_size_)));
    child->hashes.push_back(hash);
  }
  child->parent = parent;
  child->last_use = clock_;
  child->id = next_id_++;
  for (const int32_t page : pages) pool_.share(page);
  n_pages_ += count(child->pages);
  n_tokens_ += count(child->tokens);
  if (parent->parent == nullptr || !parent->children.empty()) ++n_leaves_;
  RadixNode* added = parent->children.insert(std::move(child)).first->get();
  update_listed(parent);
  update_listed(added);
  return added;
}

void RadixTree::remove_leaf(RadixNode* leaf) {
  LOCI_CHECK(leaf->children.empty() && leaf->n_locks == 0 && leaf->parent != nullptr, "removed node is in use");
  for (const int32_t page : leaf->pages) pool_.release(page);
  n_pages_ -= count(leaf->pages);
  n_tokens_ -= count(leaf->tokens);
  if (leaf->listed) evictable_.erase({leaf->last_use, leaf->id});
  RadixNode* parent = leaf->parent;
  const size_t n_key = std::min(leaf->tokens.size(), static_cast<size_t>(page_size_));
  parent->children.erase(parent->children.find(std::span<const int32_t>(leaf->tokens).first(n_key)));
  if (parent->parent == nullptr || !parent->children.empty()) --n_leaves_;
  update_listed(parent);
}

// Tails that begin the page which now lies beside them can serve nothing that it cannot.
void RadixTree::drop_redundant_tails(RadixNode* node, std::span<const int32_t> first_page) {
  for (size_t n = 1; n < first_page.size(); ++n) {
    const auto it = node->children.find(first_page.first(n));
    if (it != node->children.end()) remove_leaf(it->get());
  }
}

// The caller's page makes way for the tree's, which holds the same. If the tree's has lost its window page, it gets the
// caller's.
void RadixTree::exchange_page(int32_t& own, int32_t cached) {
  pool_.share(cached);
  if (pool_.window().exists()) {
    LOCI_CHECK(pool_.references(own) == 1, "a page that others use makes way: ", own);
    pool_.window().hand_over(own, cached);
  }
  pool_.release(std::exchange(own, cached));
}

RadixNode* RadixTree::insert(RadixNode* from, std::span<const int32_t> tokens, std::span<int32_t> pages) {
  LOCI_CHECK(tokens.size() == pages.size() * static_cast<size_t>(page_size_), "tokens of whole pages: ", tokens.size());
  ++clock_;
  touch_path(from);
  RadixNode* node = from;
  while (!pages.empty()) {
    RadixNode* child = find_child(node, tokens);
    if (child == nullptr) break;
    const int64_t n = equal_pages(child, tokens);
    if (n < count(child->pages)) child = split(child, n);
    touch(child);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      if (pages[i] == child->pages[i]) continue;
      exchange_page(pages[i], child->pages[i]);
    }
    tokens = tokens.subspan(static_cast<size_t>(n * page_size_));
    pages = pages.subspan(static_cast<size_t>(n));
    node = child;
  }
  if (pages.empty()) return node;
  RadixNode* added = add_child(node, tokens, pages);
  drop_redundant_tails(node, tokens.first(static_cast<size_t>(page_size_)));
  return added;
}

void RadixTree::insert_tail(RadixNode* node, std::span<const int32_t> tokens, int32_t& page) {
  LOCI_CHECK(!tokens.empty() && static_cast<int64_t>(tokens.size()) < page_size_, "tokens of a tail: ", tokens.size());
  ++clock_;
  touch_path(node);
  const auto [closest, n_common] = closest_child(node, tokens);
  if (n_common == static_cast<int64_t>(tokens.size())) {
    touch(closest);
    const bool same = closest->tokens.size() == tokens.size() && closest->pages.front() != page;
    if (same && pool_.references(page) == 1) exchange_page(page, closest->pages.front());
    return;
  }
  add_child(node, tokens, std::span(&page, 1));
  drop_redundant_tails(node, tokens);
}

RadixNode* RadixTree::shorten(RadixNode* node, int64_t n_pages) {
  while (n_pages > 0 && n_pages >= count(node->pages)) {
    n_pages -= count(node->pages);
    node = node->parent;
    LOCI_CHECK(node != nullptr, "shortened beyond the root");
  }
  return n_pages == 0 ? node : split(node, count(node->pages) - n_pages);
}

void RadixTree::lock(RadixNode* node) {
  for (; node != nullptr; node = node->parent) {
    if (node->n_locks++ == 0) n_locked_ += count(node->pages);
    update_listed(node);
  }
}

void RadixTree::unlock(RadixNode* node) {
  for (; node != nullptr; node = node->parent) {
    LOCI_CHECK(node->n_locks > 0, "unlocked twice");
    if (--node->n_locks == 0) n_locked_ -= count(node->pages);
    update_listed(node);
  }
}

int64_t RadixTree::evict(int64_t n_pages) {
  int64_t n_evicted = 0;
  while (n_evicted < n_pages && !evictable_.empty()) {
    RadixNode* leaf = evictable_.begin()->second;
    const int64_t n = std::min(n_pages - n_evicted, count(leaf->pages));
    n_evicted += n;
    for (size_t i = leaf->hashes.size(); i > 0 && i > leaf->pages.size() - static_cast<size_t>(n); --i) {
      evicted_[leaf->hashes[i - 1] % kEvictedTable] = leaf->hashes[i - 1];
    }
    if (n == count(leaf->pages)) {
      remove_leaf(leaf);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      pool_.release(leaf->pages.back());
      leaf->pages.pop_back();
      leaf->hashes.pop_back();
    }
    leaf->tokens.resize(leaf->pages.size() * static_cast<size_t>(page_size_));
    n_pages_ -= n;
    n_tokens_ -= n * page_size_;
  }
  return n_evicted;
}

std::vector<int32_t> RadixTree::path_pages(const RadixNode* node) const {
  std::vector<const RadixNode*> path;
  for (; node != nullptr; node = node->parent) path.push_back(node);
  std::vector<int32_t> pages;
  for (auto it = path.rbegin(); it != path.rend(); ++it) append(pages, std::span<const int32_t>((*it)->pages));
  return pages;
}

std::vector<int32_t> RadixTree::pages() const {
  std::vector<int32_t> all;
  std::vector<const RadixNode*> open;
  for (const auto& [ns, root] : roots_) open.push_back(root.get());
  while (!open.empty()) {
    const RadixNode* node = open.back();
    open.pop_back();
    append(all, std::span<const int32_t>(node->pages));
    for (const auto& child : node->children) open.push_back(child.get());
  }
  return all;
}

void RadixTree::check_node(const RadixNode* node, const std::map<const RadixNode*, int64_t>& ends, int64_t& n_pages,
                           int64_t& n_locked, int64_t& n_tokens, int64_t& n_leaves) const {
  const bool is_root = node->parent == nullptr;
  LOCI_CHECK(is_root == node->pages.empty(), "a node without pages");
  const bool is_tail = !is_root && node->hashes.empty();
  if (is_tail) {
    LOCI_CHECK(node->pages.size() == 1 && !node->tokens.empty() && count(node->tokens) < page_size_ &&
                   node->children.empty() && node->n_locks == 0,
               "a broken tail");
  } else {
    LOCI_CHECK(count(node->tokens) == count(node->pages) * page_size_ && node->hashes.size() == node->pages.size(),
               "tokens, pages and hashes of a node do not agree");
  }
  for (const int32_t page : node->pages) LOCI_CHECK(pool_.references(page) > 0, "a cached page is free: ", page);
  uint64_t hash = is_root ? node->root_hash : path_hash(node->parent);
  for (size_t i = 0; i < node->hashes.size(); ++i) {
    const auto at = static_cast<size_t>(page_size_) * i;
    hash = chain_hash(hash, std::span(node->tokens).subspan(at, static_cast<size_t>(page_size_)));
    LOCI_CHECK(hash == node->hashes[i], "hash of a page");
  }
  const auto end = ends.find(node);
  int64_t n_locks = end == ends.end() ? 0 : end->second;
  const RadixNode* before = nullptr;
  for (const auto& child : node->children) {
    LOCI_CHECK(child->parent == node, "a child's parent");
    LOCI_CHECK(child->last_use <= node->last_use || is_root, "a node used less recently than its child");
    n_locks += child->n_locks;
    if (before != nullptr) {
      const int64_t n = common_prefix(before->tokens, child->tokens);
      LOCI_CHECK(n < std::min(page_size_, std::min(count(before->tokens), count(child->tokens))),
                 "siblings with the same first page");
    }
    before = child.get();
  }
  LOCI_CHECK(node->n_locks == n_locks, "locks: expected ", n_locks, ", found ", node->n_locks);
  const bool evictable = !is_root && node->children.empty() && node->n_locks == 0;
  const auto listed = evictable_.find({node->last_use, node->id});
  LOCI_CHECK(
      node->listed == evictable && (listed != evictable_.end()) == evictable && (!evictable || listed->second == node),
      "the list of evictable leaves");
  n_pages += count(node->pages);
  n_tokens += count(node->tokens);
  if (node->n_locks > 0) n_locked += count(node->pages);
  if (!is_root && node->children.empty()) ++n_leaves;
}

void RadixTree::check_invariants(std::span<RadixNode* const> live) const {
  std::map<const RadixNode*, int64_t> ends;
  for (const RadixNode* node : live) ++ends[node];
  int64_t n_pages = 0, n_locked = 0, n_tokens = 0, n_leaves = 0;
  std::vector<const RadixNode*> open;
  for (const auto& [ns, root] : roots_) open.push_back(root.get());
  while (!open.empty()) {
    const RadixNode* node = open.back();
    open.pop_back();
    check_node(node, ends, n_pages, n_locked, n_tokens, n_leaves);
    for (const auto& child : node->children) open.push_back(child.get());
  }
  LOCI_CHECK(n_pages == n_pages_ && n_locked == n_locked_ && n_tokens == n_tokens_ && n_leaves == n_leaves_,
             "totals of the tree: pages ", n_pages_, ", locked ", n_locked_, ", tokens ", n_tokens_, ", leaves ",
             n_leaves_);
}

}  // namespace loci
