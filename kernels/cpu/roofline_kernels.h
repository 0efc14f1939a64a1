// RooflineKernels: loops that do nothing but one thing as fast as an instruction set can, for measure_roofline().
// Compiled once per ISA (isa_roofline.cc).
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace loci::cpu {

struct RooflineKernels {
  const char* name;
  // Reads n bytes in order. REQUIRES: n a multiple of 4096.
  int32_t (*read)(const uint8_t* data, size_t n) noexcept;

  // Multiply-adds on registers: `rounds` rounds of so many each. The result only keeps the work alive.
  int64_t int8_macs_per_round;  // unsigned 4-bit codes times signed bytes, summed in 32 bits
  int32_t (*int8)(int64_t rounds) noexcept;
  int64_t f32_macs_per_round;
  float (*f32)(int64_t rounds) noexcept;
  int64_t bf16_macs_per_round;  // 0, and bf16 null, without instructions for it
  float (*bf16)(int64_t rounds) noexcept;
};

// One per ISA that this build holds, as kernel_table.h.
#define LOCI_DECLARE_ROOFLINE(isa)        \
  namespace isa {                         \
  extern const RooflineKernels kRoofline; \
  }
LOCI_DECLARE_ROOFLINE(scalar)
LOCI_DECLARE_ROOFLINE(avx2)
LOCI_DECLARE_ROOFLINE(avxvnni)
LOCI_DECLARE_ROOFLINE(avx512)
LOCI_DECLARE_ROOFLINE(avx512vnni)
LOCI_DECLARE_ROOFLINE(avx512bf16)
#undef LOCI_DECLARE_ROOFLINE

}  // namespace loci::cpu
