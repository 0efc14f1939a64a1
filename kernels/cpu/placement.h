// Where threads run: the CPUs and memory nodes of this machine, and what a ThreadPlacement makes of them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/thread_placement.h"

namespace loci::cpu {

using CpuIds = std::vector<int>;  // ascending

// The kernel's notation: "0-3,8".
std::string cpu_list_text(const CpuIds& cpus);
// Empty when the text is no such list.
CpuIds parse_cpu_list(std::string_view text);

struct NumaNode {
  int id = 0;
  CpuIds cpus;
};

struct Machine {
  CpuIds usable;                // the affinity mask of this process
  std::vector<NumaNode> nodes;  // those with CPUs; empty where the system does not say
  int current_cpu = 0;          // of the calling thread
};
// `sys`: where sysfs is mounted.
Machine read_machine(const std::string& sys = "/sys");

// What the threads of a pool are told before a job.
struct PoolMode {
  std::vector<CpuIds> cpus;  // of each thread; empty: none is bound
  int priority = 0;          // as ThreadPlacement's
  int spin_us = 50;          // longest spin of a wait

  bool operator==(const PoolMode&) const = default;
};

struct PlacementPlan {
  PoolMode mode;
  std::vector<std::string> warnings;  // one line each
};
// `suffix`: "" or "-batch", for the flags that messages name. Throws Error(kInvalidInput) when no CPU is left.
PlacementPlan plan_placement(const ThreadPlacement& placement, const Machine& machine, int n_threads,
                             const std::string& suffix = "");

// The CPUs that a placement leaves to its threads. Throws as plan_placement does.
CpuIds placement_cpus(const ThreadPlacement& placement, const Machine& machine, const std::string& suffix = "");

}  // namespace loci::cpu
