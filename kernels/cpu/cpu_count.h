// How many threads to start by default.
#pragma once
#include <vector>

namespace loci::cpu {

// Physical cores behind `cpus`, but no more than the CPU quota of this process's cgroup (v1 or v2) allows; >= 1.
int default_thread_count(const std::vector<int>& cpus);
// The same for the whole affinity mask.
int default_thread_count();
// Logical CPUs in the affinity mask of the calling thread, ascending; at least one.
std::vector<int> usable_cpu_ids();

}  // namespace loci::cpu
