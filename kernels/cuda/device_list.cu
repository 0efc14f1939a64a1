#include "kernels/cuda/device_list.h"

#include <cuda_runtime_api.h>

#include "kernels/error.h"

namespace loci::cuda {

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  int n_devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&n_devices);
  if (status != cudaSuccess || n_devices == 0) {
    DeviceInfo none;
    none.id = "CUDA";
    none.note = status != cudaSuccess ? str("no device: ", cudaGetErrorString(status)) : "no device";
    devices.push_back(none);
    return devices;
  }
  for (int i = 0; i < n_devices; ++i) {
    DeviceInfo device;
    device.id = str("CUDA", i);
    device.note = "this version computes on the CPU only";
    cudaDeviceProp properties{};
    const cudaError_t asked = cudaGetDeviceProperties(&properties, i);
    if (asked != cudaSuccess) {
      device.note = str("does not answer: ", cudaGetErrorString(asked));
    } else {
      device.name = properties.name;
      device.detail = str("compute capability ", properties.major, ".", properties.minor);
      device.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
      size_t free_bytes = 0, total_bytes = 0;
      if (cudaSetDevice(i) == cudaSuccess && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
        device.free_bytes = static_cast<int64_t>(free_bytes);
      }
    }
    devices.push_back(device);
  }
  return devices;
}

}  // namespace loci::cuda
