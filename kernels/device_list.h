// The devices of this machine, for `loci --list-devices`. Plain facts; choosing one is the engine's matter.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace loci {

struct DeviceInfo {
  std::string id;           // "CPU", "CUDA0"
  std::string name;         // "Intel(R) Xeon(R) Processor"
  std::string detail;       // "avx512vnni, 2 cores"; "compute capability 9.0"
  int64_t total_bytes = 0;  // memory, 0: unknown
  int64_t free_bytes = 0;   // of it, available now
  bool usable = false;      // loci computes on it
  std::string note;         // why it is not usable, empty otherwise
};

// The CPU first, then CUDA devices. Where CUDA devices cannot be listed, an entry "CUDA" says why: built without
// CUDA, no driver, no device. Throws nothing.
std::vector<DeviceInfo> list_devices();

// "CPU: Intel(R) Xeon(R) Processor (avx512vnni, 2 cores; 24.0 GiB, 21.5 GiB free)", one line.
std::string describe(const DeviceInfo& device);

}  // namespace loci
