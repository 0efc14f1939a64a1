#include "kernels/cpu/placement.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/cpu/cpu_count.h"
#include "kernels/error.h"

namespace loci::cpu {
namespace {

CpuIds common(const CpuIds& a, const CpuIds& b) {
  CpuIds both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// Nodes with their usable CPUs, those without any left out.
std::vector<NumaNode> nodes_within(const std::vector<NumaNode>& nodes, const CpuIds& cpus) {
  std::vector<NumaNode> within;
  for (const NumaNode& node : nodes) {
    if (CpuIds left = common(node.cpus, cpus); !left.empty()) within.push_back({node.id, std::move(left)});
  }
  return within;
}

std::vector<NumaNode> read_nodes(const std::string& sys) {
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sys + "/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    int id = 0;
    const char* end = name.data() + name.size();
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, end, id).ptr != end || name.size() == 4) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string text;
    std::getline(file, text);
    if (CpuIds cpus = parse_cpu_list(text); !cpus.empty()) nodes.push_back({id, std::move(cpus)});
  }
  std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return nodes;
}

const char* name_of(NumaMode mode) {
  switch (mode) {
    case NumaMode::kDistribute:
      return "distribute";
    case NumaMode::kIsolate:
      return "isolate";
    case NumaMode::kNumactl:
      return "numactl";
    case NumaMode::kNone:
      break;
  }
  return "none";
}

}  // namespace

std::string cpu_list_text(const CpuIds& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += str(text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += str("-", cpus[last]);
    i = last + 1;
  }
  return text;
}

CpuIds parse_cpu_list(std::string_view text) {
  constexpr int kMostCpus = 1 << 16;
  CpuIds cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0, last = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) return {};
    last = first;
    if (next < end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc{}) return {};
      next = range.ptr;
    }
    if (first < 0 || last < first || last >= kMostCpus) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (next < end && *next != ',') return {};
    at = next + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

Machine read_machine(const std::string& sys) {
  return {.usable = usable_cpu_ids(), .nodes = read_nodes(sys), .current_cpu = std::max(0, sched_getcpu())};
}

CpuIds placement_cpus(const ThreadPlacement& placement, const Machine& machine, const std::string& suffix) {
  CpuIds cpus = machine.usable;
  if (!placement.cpus.empty()) {
    cpus = common(placement.cpus, machine.usable);
    if (cpus.empty()) {
      fail(ErrorKind::kInvalidInput, "--cpu-mask", suffix, ", --cpu-range", suffix, ": expected some of the CPUs ",
           cpu_list_text(machine.usable), " that this process may use, found ", cpu_list_text(placement.cpus));
    }
  }
  if (placement.numa == NumaMode::kIsolate) {
    for (const NumaNode& node : machine.nodes) {
      if (!std::binary_search(node.cpus.begin(), node.cpus.end(), machine.current_cpu)) continue;
      CpuIds on_node = common(cpus, node.cpus);
      if (on_node.empty()) {
        fail(ErrorKind::kInvalidInput, "--numa isolate: expected some of the CPUs ", cpu_list_text(node.cpus),
             " of node ", node.id, ", on which the program was started, found ", cpu_list_text(cpus));
      }
      return on_node;
    }
  }
  return cpus;
}

PlacementPlan plan_placement(const ThreadPlacement& placement, const Machine& machine, int n_threads,
                             const std::string& suffix) {
  PlacementPlan plan{.mode = {.cpus = {}, .priority = placement.priority, .spin_us = placement.poll}, .warnings = {}};
  const CpuIds cpus = placement_cpus(placement, machine, suffix);
  if (!placement.cpus.empty()) {
    CpuIds missing;
    std::set_difference(placement.cpus.begin(), placement.cpus.end(), machine.usable.begin(), machine.usable.end(),
                        std::back_inserter(missing));
    if (!missing.empty()) {
      plan.warnings.push_back(str("--cpu-mask", suffix, ", --cpu-range", suffix, ": CPUs ", cpu_list_text(missing),
                                  " are not among the CPUs ", cpu_list_text(machine.usable),
                                  " that this process may use; they are left out"));
    }
  }
  const std::vector<NumaNode> nodes = nodes_within(machine.nodes, cpus);
  const bool on_nodes = placement.numa == NumaMode::kDistribute || placement.numa == NumaMode::kIsolate;
  if (on_nodes && machine.nodes.size() < 2) {
    plan.warnings.push_back(str("--numa ", name_of(placement.numa), ": this machine has ",
                                machine.nodes.empty() ? "no memory nodes that the system tells of" : "one memory node",
                                "; it changes nothing"));
  }
  const bool distribute = placement.numa == NumaMode::kDistribute && nodes.size() > 1;
  const bool isolate = placement.numa == NumaMode::kIsolate && machine.nodes.size() > 1;
  const bool numactl = placement.numa == NumaMode::kNumactl;
  if (placement.cpus.empty() && !placement.strict && !distribute && !isolate && !numactl) return plan;
  if (static_cast<int>(cpus.size()) < n_threads) {
    plan.warnings.push_back(str(n_threads, " threads", suffix.empty() ? "" : " for prompts", " share the ", cpus.size(),
                                cpus.size() == 1 ? " CPU " : " CPUs ", cpu_list_text(cpus), ": that is slow"));
  }
  std::vector<CpuIds> groups;
  if (distribute) {
    for (const NumaNode& node : nodes) groups.push_back(node.cpus);
  } else {
    groups.push_back(cpus);
  }
  for (int i = 0; i < n_threads; ++i) {
    const CpuIds& group = groups[static_cast<size_t>(i) % groups.size()];
    const size_t turn = static_cast<size_t>(i) / groups.size();
    plan.mode.cpus.push_back(placement.strict ? CpuIds{group[turn % group.size()]} : group);
  }
  return plan;
}

}  // namespace loci::cpu
