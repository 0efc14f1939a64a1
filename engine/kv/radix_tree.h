// RadixTree: which token prefixes have their K/V in which pages (RadixAttention: Zheng et al. 2023,
// arXiv:2312.07104). KvManager owns it; nobody else sees it.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/kv/cache_report.h"
#include "engine/kv/page_pool.h"
#include "kernels/kv_format/kv_layer.h"

namespace loci {

// What besides the tokens decides what a page holds. Sequences of different namespaces never share.
struct CacheNamespace {
  uint64_t model = 0;  // fingerprint
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  std::string variant{};  // adapter, or whatever else changes K/V; empty: the plain model

  auto operator<=>(const CacheNamespace&) const = default;
};

struct RadixNode;

// Orders siblings by the tokens of their first page; a shorter prefix comes first.
struct FirstPageLess {
  using is_transparent = void;
  int page_size = 1;
  std::span<const int32_t> key(const std::unique_ptr<RadixNode>& node) const;
  std::span<const int32_t> key(std::span<const int32_t> tokens) const { return tokens; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    const auto x = key(a), y = key(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  }
};

// A run of pages. Only the last page of a finished sequence may be half full: it is a node of its own then, a *tail*,
// without children and never locked.
struct RadixNode {
  std::vector<int32_t> tokens;   // pages.size() * page_size; in a tail fewer than page_size, at least one
  std::vector<int32_t> pages;    // not empty, but in a root
  std::vector<uint64_t> hashes;  // [pages.size()] of all tokens from the root to the page's end; empty in a tail
  uint64_t root_hash = 0;        // in a root: of its namespace
  RadixNode* parent = nullptr;   // nullptr in a root
  std::set<std::unique_ptr<RadixNode>, FirstPageLess> children;
  int64_t n_locks = 0;   // live sequences whose path passes through here
  int64_t last_use = 0;  // by the tree's own clock, which counts operations
  int64_t id = 0;        // order of creation
  bool listed = false;   // in the list of leaves that may be evicted

  explicit RadixNode(int page_size) : children(FirstPageLess{page_size}) {}
};

// The part of some tokens that the tree holds: whole pages, and perhaps the first tokens of one page more.
struct RadixMatch {
  RadixNode* node = nullptr;   // its path is the whole pages
  std::vector<int32_t> pages;  // of the path
  int32_t partial_page = -1;   // -1: none
  int64_t n_partial = 0;       // tokens of it that agree, fewer than a page
};

// Invariants (check_invariants):
// I1 siblings differ in their first page, and no tail is the beginning of a sibling's first page.
// I2 a node's locks are the live sequences whose path ends there plus those of its children.
// I3 evictable pages (of nodes without locks) + locked pages = pages in the tree.
// I4 a page holds the K/V of exactly its path's tokens at positions 0, 1, ...: pages enter only through insert(),
//    and keep their path when nodes are split.
// The tree holds one reference on each of its pages.
class RadixTree {
 public:
  RadixTree(PagePool& pool, int page_size);
  ~RadixTree();
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  // The namespace's root; made when it is first asked for, never removed.
  RadixNode* root(const CacheNamespace& ns);
  // The longest prefix of `tokens` below `root`. Splits a node that agrees in part, and counts as a use of the path.
  RadixMatch match(RadixNode* root, std::span<const int32_t> tokens);
  // Tokens that match() would find, and in `pages` the pages that hold them. Changes nothing.
  int64_t peek(const RadixNode* root, std::span<const int32_t> tokens, std::vector<int32_t>* pages = nullptr) const;
  // Why `found`, the match of `tokens`, is not longer.
  CacheReport explain(const RadixNode* root, std::span<const int32_t> tokens, const RadixMatch& found) const;

  // Puts whole pages below `from`. Where the tree has a page already, it takes the place of the caller's in `pages`
  // and the caller's is released. Returns the node at whose end the last page lies.
  // REQUIRES: tokens.size() == pages.size() * page_size; the caller holds a reference on each page.
  RadixNode* insert(RadixNode* from, std::span<const int32_t> tokens, std::span<int32_t> pages);
  // Keeps a half-filled page behind `node`, unless a page there begins with the same tokens. If that one has no more of
  // them, it takes the place of the caller's, as in insert().
  void insert_tail(RadixNode* node, std::span<const int32_t> tokens, int32_t& page);
  // The ancestor (or a new node on the path) at which the path to `node` is `n_pages` shorter.
  RadixNode* shorten(RadixNode* node, int64_t n_pages);

  // A live sequence's path ends at `node`: nothing on it is evicted until unlock().
  void lock(RadixNode* node);
  void unlock(RadixNode* node);
  // Gives up to `n_pages` pages of unlocked leaves back, least recently used leaf first and its last pages first.
  // Returns the number of pages that left the tree.
  int64_t evict(int64_t n_pages);

  int64_t n_pages() const { return n_pages_; }
  int64_t n_locked_pages() const { return n_locked_; }
  int64_t n_evictable_pages() const { return n_pages_ - n_locked_; }
  int64_t n_tokens() const { return n_tokens_; }
  int64_t n_leaves() const { return n_leaves_; }
  std::vector<int32_t> pages() const;  // all of them
  // Pages on the path to `node`, in order.
  std::vector<int32_t> path_pages(const RadixNode* node) const;
  // `live`: the node of each live sequence that has one.
  void check_invariants(std::span<RadixNode* const> live) const;

 private:
  RadixNode* find_child(RadixNode* node, std::span<const int32_t> rest) const;
  // The child that shares most tokens with `rest`, and how many; nullptr when none shares any.
  std::pair<RadixNode*, int64_t> closest_child(const RadixNode* node, std::span<const int32_t> rest) const;
  int64_t equal_pages(const RadixNode* node, std::span<const int32_t> rest) const;
  RadixNode* split(RadixNode* node, int64_t n_pages);
  RadixNode* add_child(RadixNode* parent, std::span<const int32_t> tokens, std::span<const int32_t> pages);
  void remove_leaf(RadixNode* leaf);
  void exchange_page(int32_t& own, int32_t cached);
  void drop_redundant_tails(RadixNode* node, std::span<const int32_t> first_page);
  void touch(RadixNode* node);
  void touch_path(RadixNode* node);
  void update_listed(RadixNode* node);
  uint64_t path_hash(const RadixNode* node) const;
  void check_node(const RadixNode* node, const std::map<const RadixNode*, int64_t>& ends, int64_t& n_pages,
                  int64_t& n_locked, int64_t& n_tokens, int64_t& n_leaves) const;

  PagePool& pool_;
  int64_t page_size_;
  std::map<CacheNamespace, std::unique_ptr<RadixNode>> roots_;
  std::map<std::pair<int64_t, int64_t>, RadixNode*> evictable_;  // (last_use, id) of unlocked leaves
  std::vector<uint64_t> evicted_;                                // hashes of evicted pages, by hash modulo size
  int64_t clock_ = 0, next_id_ = 0;
  int64_t n_pages_ = 0, n_locked_ = 0, n_tokens_ = 0, n_leaves_ = 0;
};

}  // namespace loci
