// A Backend that says plainly what each operation computes: scalar, single-threaded, double accumulation, weights
// dequantized to f32. The slow twin of every device: engine tests run on it, devices are compared with it.
#pragma once
#include <functional>
#include <memory>

#include "kernels/backend.h"

namespace loci::test {

// `on_attention` is called by each attention operation, so that a test can act in the middle of a forward pass.
std::unique_ptr<Backend> make_reference_backend(std::function<void()> on_attention = {});

}  // namespace loci::test
