// What AMX adds to the AVX-512 VNNI kernels: products of many tokens on tile registers, with the same bits.
#pragma once
#include <stdint.h>

#include "kernels/cpu/kernel_table.h"

namespace loci::cpu {

struct AmxKernels {
  // Replaces the slab kernels of the types whose scales span 32 elements. The others stay: their sums of 16 elements
  // fill a quarter of a tile, which gains nothing.
  void (*replace_slabs)(MatmulKernels& kernels) noexcept;
  int64_t int8_macs_per_round;  // as in RooflineKernels
  int32_t (*int8)(int64_t rounds) noexcept;
};

namespace amx {
extern const AmxKernels kAmx;  // REQUIRES: amx_permitted()
}
namespace amx_emulated {
extern const AmxKernels kAmx;  // the same in plain C++; tests only
}

}  // namespace loci::cpu
