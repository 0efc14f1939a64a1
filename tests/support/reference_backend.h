// A Backend that says plainly what each operation computes: scalar, single-threaded, double accumulation, weights
// dequantized to f32. The slow twin of every device: engine tests run on it, devices are compared with it.
#pragma once
#include <memory>

#include "kernels/backend.h"

namespace loci::test {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace loci::test
