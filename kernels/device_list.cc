#include "kernels/device_list.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/isa.h"
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

DeviceInfo cpu_device() {
  DeviceInfo device;
  device.id = "CPU";
  device.name = proc_value("/proc/cpuinfo", "model name");
  if (device.name.empty()) device.name = "unknown processor";
  device.total_bytes = meminfo_bytes("MemTotal");
  device.free_bytes = meminfo_bytes("MemAvailable");
  device.usable = true;
  try {
    device.detail = str(cpu::choose_kernels().name, ", ");
  } catch (const Error& error) {  // LOCI_ISA names an instruction set that is not there
    device.usable = false;
    device.note = error.what();
  }
  const int cores = cpu::default_thread_count();
  device.detail += str(cores, cores == 1 ? " core" : " cores");
  return device;
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
