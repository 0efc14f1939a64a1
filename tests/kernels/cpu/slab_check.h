// Runs the slab kernels of a table beside the scalar panel kernel.
#pragma once
#include <algorithm>
#include <vector>

#include "kernels/cpu/kernel_table.h"

namespace loci::test {

// out [tile_tokens][16] of `n_blocks` blocks of a panel, decoded to slabs of `step` blocks (whole units) at a time.
inline std::vector<float> run_slabs(const cpu::MatmulKernels& kernels, cpu::PanelType type,
                                    const std::vector<uint8_t>& panel, int64_t n_blocks, int64_t step,
                                    const std::vector<uint8_t>& tile, int tile_tokens) {
  std::vector<float> out(static_cast<size_t>(tile_tokens * cpu::kPanelRows), 0.0f);
  std::vector<uint8_t> memory(static_cast<size_t>(step) * cpu::kSlabBlockBytes + 64);
  uint8_t* slab = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  if (kernels.begin_slabs != nullptr) kernels.begin_slabs();
  for (int64_t block = 0; block < n_blocks; block += step) {
    const int64_t n = std::min(step, n_blocks - block);
    kernels.slab_unpack[type](panel.data(), block, n, slab);
    kernels.slab_int8[type](slab, n, tile.data() + block * cpu::kTileBytes * tile_tokens, tile_tokens, out.data());
  }
  if (kernels.end_slabs != nullptr) kernels.end_slabs();
  return out;
}

}  // namespace loci::test
