// KvMemory: the memory behind all pages of a K/V cache, on small system pages where little of it is used.
//
// Each plane (K or V of one head in one layer) is a range of its own in which pages follow one another, so that a few
// tokens touch the beginnings of hundreds of ranges. On huge pages that would take the whole pool for the first token;
// on small ones reading a full pool is slower. So memory begins small, and a piece becomes huge when half of it is in
// use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/kv_format/kv_layer.h"

namespace loci {

class KvMemory {
 public:
  // Allocates for all layers and sets their `base`. Throws Error(kOutOfMemory).  `backend` must outlive this.
  KvMemory(std::span<KvLayer> layers, Backend& backend);

  // Pages [0, n_pages[i]) of layer i have been or will now be written. Fewer than before have no effect.
  void use(std::span<const KvLayer> layers, std::span<const int64_t> n_pages);

  int64_t bytes() const { return bytes_; }
  // Bytes for which huge pages have been asked.
  int64_t huge_bytes() const;

 private:
  Backend& backend_;
  int64_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
  std::vector<bool> is_huge_;  // per piece of kHugePiece bytes; empty: all of it is smaller than one
};

}  // namespace loci
