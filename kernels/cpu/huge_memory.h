// Anonymous memory on 2 MiB pages: weights, K/V pages, scratch. Falls back to small pages silently; reading through
// 4 KiB pages costs up to a third of the memory bandwidth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace loci::cpu {

// Zeroed memory, aligned to 2 MiB (4 KiB below that size). What its end has beyond whole huge pages lies on small ones.
// Throws Error(kOutOfMemory) naming the size.
std::shared_ptr<std::byte> allocate_huge(size_t bytes);
// The same on small pages; from 2 MiB on its end is aligned to 2 MiB as well.
std::shared_ptr<std::byte> allocate_small(size_t bytes);
// Moves what lies in a range of allocate_small() to huge pages, and makes those huge that are touched later.
// REQUIRES: whole pages of 2 MiB.
void make_huge(std::byte* begin, size_t bytes);

// Hands out 64-byte aligned pieces of shared slabs in call order, so that matrices prepared one after another lie one
// after another. A piece keeps its slab alive.
class PanelArena {
 public:
  std::shared_ptr<std::byte> allocate(size_t bytes);
  // Pieces of so many bytes in all, each rounded(), follow: they will lie in one slab.
  void expect(size_t bytes) { expected_bytes_ = bytes; }
  static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  // Locks the slabs in memory, those parts that were or will be written: 0, or errno.
  [[nodiscard]] int lock() const;

 private:
  struct Slab {
    std::weak_ptr<std::byte> memory;
    size_t bytes;
  };
  std::vector<Slab> slabs_;  // all that were made
  std::shared_ptr<std::byte> slab_;
  size_t slab_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t expected_bytes_ = 0;
};

// A buffer that only grows; contents are lost when it does. Aligned to 64 bytes.
class ScratchBuffer {
 public:
  std::byte* reserve(size_t bytes);

 private:
  std::shared_ptr<std::byte> data_;
  size_t bytes_ = 0;
};

}  // namespace loci::cpu
