// The instruction sets this build holds kernels for, and the choice among them. LOCI_ISA forces one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/kernel_table.h"

namespace loci::cpu {

// Names of the instruction sets that this CPU and operating system can run, best first.
std::vector<std::string_view> available_isas();
// Kernels of a named instruction set. Throws Error(kInvalidInput) if it is unknown or this CPU lacks it.
const KernelTable& kernels_of(std::string_view isa);
// Kernels named by the environment variable LOCI_ISA, or the best available ones when it is unset or empty.
const KernelTable& choose_kernels();
// How many bytes ahead a product of few rows should fetch weights; 0 where the CPU does so by itself. The environment
// variable LOCI_PREFETCH overrides it. Throws Error(kInvalidInput) if that is no number from 0 to 1048576.
int64_t weight_prefetch_bytes();

}  // namespace loci::cpu
