// ThreadPlacement: on which CPUs the threads of a pool run, and how. Plain configuration; what the machine has is
// looked up when a pool is made.
#pragma once
#include <optional>
#include <vector>

namespace loci {

// How threads and memory spread over a machine with several memory nodes.
enum class NumaMode {
  kNone,        // left to the operating system
  kDistribute,  // threads evenly over all nodes; weights lie with the threads that packed them
  kIsolate,     // only CPUs of the node that the program was started on
  kNumactl,     // the CPUs that numactl (or taskset) gave this process
};

struct ThreadPlacement {
  std::vector<int> cpus;  // ids, ascending; empty: all that this process may use
  bool strict = false;    // each thread on one CPU of its own, in order and round again; false: on any of them
  int priority = 0;       // -1 low, 0 normal, 1 medium, 2 high, 3 real time
  int poll = 50;          // 0..100: a wait spins for at most so many microseconds before it sleeps
  NumaMode numa = NumaMode::kNone;

  bool operator==(const ThreadPlacement&) const = default;
};

// The -batch flags: what is unset is as without -batch.
struct BatchPlacement {
  std::optional<std::vector<int>> cpus;
  std::optional<bool> strict;
  std::optional<int> priority, poll;

  ThreadPlacement over(ThreadPlacement placement) const {
    if (cpus) placement.cpus = *cpus;
    if (strict) placement.strict = *strict;
    if (priority) placement.priority = *priority;
    if (poll) placement.poll = *poll;
    return placement;
  }
};

}  // namespace loci
