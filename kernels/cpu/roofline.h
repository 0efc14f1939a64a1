// What this machine can do at most: read bandwidth and multiply-adds per second of the instruction set in use, with a
// given number of threads. `loci bench` judges what was reached by it.
#pragma once
#include <string>

#include "kernels/thread_placement.h"

namespace loci::cpu {

struct Roofline {
  std::string isa;
  int n_threads = 0;
  double read_bytes = 0;  // per second, from memory, in order
  // Multiply-adds per second.
  double int8_macs = 0;
  double f32_macs = 0;
  double bf16_macs = 0;  // 0: no instructions for it
};

// Takes about half a second and 256 MiB. The best of several short runs: others on the machine can only slow one down.
// Throws what choose_kernels(), plan_placement() and allocate_huge() throw.
Roofline measure_roofline(int n_threads, const ThreadPlacement& placement = {});

}  // namespace loci::cpu
