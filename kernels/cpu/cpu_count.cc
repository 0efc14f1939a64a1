#include "kernels/cpu/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace loci::cpu {
namespace {

// Hardware threads of one core count once.
int cores_behind(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings) || siblings.empty()) siblings = "cpu" + std::to_string(cpu);
    cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

// Whole CPUs of a quota in microseconds per period; 0: no limit.
int whole_cpus(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(quota / period));
}

int read_v2_limit(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return whole_cpus(std::atof(quota.c_str()), period);
}

int read_v1_limit(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  return whole_cpus(quota, period);
}

// The smallest limit of this process's group and the groups above it; 0: none.
int cgroup_limit() {
  int limit = 0;
  const auto consider = [&](int cpus) {
    if (cpus > 0) limit = limit == 0 ? cpus : std::min(limit, cpus);
  };
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    while (true) {
      if (v2) {
        consider(read_v2_limit("/sys/fs/cgroup" + path));
      } else {
        consider(read_v1_limit("/sys/fs/cgroup/cpu" + path));
        consider(read_v1_limit("/sys/fs/cgroup/" + controllers + path));
      }
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos || path.empty()) break;
      path.resize(slash);
    }
  }
  return limit;
}

}  // namespace

std::vector<int> usable_cpu_ids() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
  } else {
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

int default_thread_count(const std::vector<int>& cpus) {
  const int cores = cores_behind(cpus);
  const int limit = cgroup_limit();
  return limit > 0 ? std::min(cores, limit) : cores;
}

int default_thread_count() { return default_thread_count(usable_cpu_ids()); }

}  // namespace loci::cpu
