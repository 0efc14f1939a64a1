#include "kernels/cpu/huge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "kernels/error.h"

namespace loci::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = size_t{4} << 10;
constexpr size_t kSlab = size_t{64} << 20;

[[noreturn]] void fail_out_of_memory(size_t bytes) {
  fail(ErrorKind::kOutOfMemory, "cannot allocate ", bytes, " bytes (", (bytes >> 20), " MiB)");
}

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Zeroed memory. From the size of a huge page on: aligned to it, its end to end_alignment, with `advice`.
std::shared_ptr<std::byte> map_memory(size_t bytes, size_t end_alignment, int advice) {
  if (bytes > (size_t{1} << 62)) fail_out_of_memory(bytes);
  const bool huge = bytes >= kHugePage;
  const size_t size = round_up(std::max<size_t>(bytes, 1), huge ? end_alignment : kSmallPage);
  // mmap aligns to small pages only: map one huge page more and give the ends back.
  const size_t mapped = huge ? size + kHugePage : size;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) fail_out_of_memory(bytes);
  std::byte* start = static_cast<std::byte*>(raw);
  if (huge) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(raw);
    const size_t before = round_up(address, kHugePage) - address;
    const size_t after = mapped - before - size;
    if (before > 0) munmap(start, before);
    if (after > 0) munmap(start + before + size, after);
    start += before;
    // Before the first touch. Refusal leaves what the system likes best, which works as well.
    (void)madvise(start, size, advice);
  }
  return {start, [size](std::byte* p) { munmap(p, size); }};
}

}  // namespace

std::shared_ptr<std::byte> allocate_huge(size_t bytes) { return map_memory(bytes, kSmallPage, MADV_HUGEPAGE); }

std::shared_ptr<std::byte> allocate_small(size_t bytes) { return map_memory(bytes, kHugePage, MADV_NOHUGEPAGE); }

void make_huge(std::byte* begin, size_t bytes) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif
  // The first for what is not touched yet, the second for what is. A system that refuses them keeps its small pages.
  if (madvise(begin, bytes, MADV_HUGEPAGE) == 0) (void)madvise(begin, bytes, MADV_COLLAPSE);
}

std::shared_ptr<std::byte> PanelArena::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  if (!slab_ || slab_bytes_ - used_bytes_ < size) {
    slab_bytes_ = std::max(expected_bytes_ > 0 ? expected_bytes_ : kSlab, size);
    slab_ = allocate_huge(slab_bytes_);  // pages that nobody touches cost nothing
    used_bytes_ = 0;
    slabs_.push_back({slab_, slab_bytes_});
  }
  std::shared_ptr<std::byte> piece(slab_, slab_.get() + used_bytes_);
  used_bytes_ += size;
  expected_bytes_ -= std::min(expected_bytes_, size);
  return piece;
}

int PanelArena::lock() const {
  for (const Slab& slab : slabs_) {
    const std::shared_ptr<std::byte> memory = slab.memory.lock();
    // On fault: what a slab has left at its end stays untouched.
    if (memory && mlock2(memory.get(), slab.bytes, MLOCK_ONFAULT) != 0) return errno;
  }
  return 0;
}

std::byte* ScratchBuffer::reserve(size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    bytes_ = std::max(bytes, bytes_ + bytes_ / 2);
    data_ = allocate_huge(bytes_);
  }
  return data_.get();
}

}  // namespace loci::cpu
