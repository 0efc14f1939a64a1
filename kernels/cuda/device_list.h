// Which CUDA devices this machine has. All that stands in kernels/cuda today: there is no CUDA backend yet.
#pragma once
#include <vector>

#include "kernels/device_list.h"

namespace loci::cuda {

// One entry per device; a single entry with a note when there is none or the driver does not answer.
std::vector<DeviceInfo> list_devices();

}  // namespace loci::cuda
