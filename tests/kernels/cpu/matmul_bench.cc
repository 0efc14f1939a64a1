// matmul_bench [type ...]: multiply-adds per second of Backend::matmul for each weight type and number of rows, and
// bytes per second at one row, where reading the weights is what it costs. One thread unless LOCI_BENCH_THREADS says
// otherwise; LOCI_ISA applies. Weights larger than the caches for M = 1, a typical matrix for the rest.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/cpu/random_weight.h"

namespace {

using namespace loci;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Best time of a call over at least `budget` seconds.
template <typename Call>
double best_time(double budget, Call&& call) {
  call();
  double best = 1e30;
  const double end = seconds() + budget;
  do {
    const double start = seconds();
    call();
    best = std::min(best, seconds() - start);
  } while (seconds() < end);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const char* threads_text = std::getenv("LOCI_BENCH_THREADS");
  const int n_threads = threads_text != nullptr ? std::atoi(threads_text) : 1;
  std::vector<DType> types;
  for (int i = 1; i < argc; ++i) {
    if (const auto type = dtype_from_name(argv[i])) types.push_back(*type);
  }
  if (types.empty()) {
    types = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kIQ4_NL, DType::kMXFP4,
             DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kF16,    DType::kF32};
  }
  const int64_t k = 1536, n = 4096;
  for (const bool precise : {false, true}) {
    const auto backend = make_cpu_backend({.n_threads = n_threads, .n_threads_batch = n_threads, .precise = precise});
    std::printf("%s%s, N %ld, K %ld, GMAC/s by number of rows\n%-8s", backend->describe().c_str(),
                precise ? ", precise" : "", static_cast<long>(n), static_cast<long>(k), "type");
    const int64_t row_counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 64, 512};
    for (const int64_t m : row_counts) std::printf("%7ld", static_cast<long>(m));
    std::printf("%12s%12s\n", "GB/s M=1", "repack GB/s");
    for (const DType type : types) {
      const test::RandomWeight one = test::random_weight(type, n, k, 1);
      const auto weight = backend->prepare(one.view);
      const double repack = best_time(0.02, [&] { (void)backend->prepare(one.view); });
      std::vector<float> x(static_cast<size_t>(512 * k)), out(static_cast<size_t>(512 * n));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
      std::printf("%-8s", std::string(name(type)).c_str());
      for (const int64_t m : row_counts) {
        const MatmulOut target = {weight.get(), nullptr, out.data(), n, false};
        const double time = best_time(0.1, [&] { backend->matmul({&target, 1}, x.data(), k, m); });
        std::printf("%7.1f", 1e-9 * static_cast<double>(m * n * k) / time);
      }
      // Many copies, together beyond the last-level cache, read one after another.
      std::vector<std::unique_ptr<PackedWeight>> copies;
      const size_t total = size_t{400} << 20;
      for (size_t bytes = 0; bytes < total; bytes += weight->bytes()) {
        copies.push_back(backend->prepare(one.view));
        if (weight->bytes() == 0) break;
      }
      const double pass = best_time(0.3, [&] {
        for (const auto& copy : copies) {
          const MatmulOut target = {copy.get(), nullptr, out.data(), n, false};
          backend->matmul({&target, 1}, x.data(), k, 1);
        }
      });
      std::printf("%12.1f%12.2f\n", 1e-9 * static_cast<double>(weight->bytes() * copies.size()) / pass,
                  1e-9 * static_cast<double>(one.view.n_bytes()) / repack);
      std::fflush(stdout);
    }
  }
}
