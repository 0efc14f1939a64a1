// How many threads to start by default.
#pragma once

namespace loci::cpu {

// Physical cores in this process's affinity mask, but no more than its cgroup's CPU quota (v1 or v2) allows; >= 1.
int default_thread_count();
// Logical CPUs in the affinity mask; >= 1.
int usable_cpus();

}  // namespace loci::cpu
