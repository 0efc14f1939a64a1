#include "kernels/device_list.h"

#include <sched.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "kernels/backend.h"
#include "kernels/error.h"
#ifdef LOCI_CUDA
#include "kernels/cuda/device_list.h"
#endif

namespace loci {
namespace {

// The value after "key :" in a /proc file, empty when it has no such key.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int64_t meminfo_bytes(const std::string& key) {
  std::istringstream in(proc_value("/proc/meminfo", key));
  int64_t kib = 0;
  in >> kib;
  return kib * 1024;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

DeviceInfo cpu_device() {
  DeviceInfo cpu;
  cpu.id = "CPU";
  cpu.name = proc_value("/proc/cpuinfo", "model name");
  if (cpu.name.empty()) cpu.name = "unknown processor";
  cpu.total_bytes = meminfo_bytes("MemTotal");
  cpu.free_bytes = meminfo_bytes("MemAvailable");
  cpu.usable = true;
  const int cores = usable_cores();
  try {
    cpu.detail = cpu_isa_name();
  } catch (const Error& error) {  // LOCI_ISA names an instruction set that is not there
    cpu.usable = false;
    cpu.note = error.what();
  }
  if (cores > 0) cpu.detail += str(cpu.detail.empty() ? "" : ", ", cores, cores == 1 ? " core" : " cores");
  return cpu;
}

std::string gibibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
  return text;
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices{cpu_device()};
#ifdef LOCI_CUDA
  for (DeviceInfo& device : cuda::list_devices()) devices.push_back(std::move(device));
#else
  DeviceInfo cuda;
  cuda.id = "CUDA";
  cuda.note = "this build has no CUDA support (LOCI_CUDA=OFF)";
  devices.push_back(std::move(cuda));
#endif
  return devices;
}

std::string describe(const DeviceInfo& device) {
  std::string text = device.id + ":";
  if (!device.name.empty()) text += " " + device.name;
  std::string facts = device.detail;
  if (device.total_bytes > 0) {
    facts +=
        (facts.empty() ? "" : "; ") + gibibytes(device.total_bytes) + ", " + gibibytes(device.free_bytes) + " free";
  }
  if (!facts.empty()) text += " (" + facts + ")";
  if (!device.note.empty()) text += " " + (device.name.empty() ? device.note : "- " + device.note);
  return text;
}

}  // namespace loci
