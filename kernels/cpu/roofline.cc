#include "kernels/cpu/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/amx_kernels.h"
#include "kernels/cpu/huge_memory.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/roofline_kernels.h"
#include "kernels/cpu/thread_pool.h"

namespace loci::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = size_t{256} << 20;  // well beyond any cache
constexpr size_t kReadSlice = kReadBytes / 4;     // read at a time, in turns
constexpr size_t kReadUnit = 4096;
constexpr double kSeconds = 0.12;  // for each figure
constexpr int kLeastRuns = 8;      // however slow

#if defined(LOCI_HAS_AMX)
const RooflineKernels& amx_roofline() {
  static const RooflineKernels kernels = [] {
    RooflineKernels vnni = avx512vnni::kRoofline;
    vnni.name = "amx";
    vnni.int8_macs_per_round = amx::kAmx.int8_macs_per_round;
    vnni.int8 = amx::kAmx.int8;
    return vnni;
  }();
  return kernels;
}
#endif

constexpr const RooflineKernels* kAll[] = {
#if defined(LOCI_HAS_AVX512VNNI)
    &avx512vnni::kRoofline,
#endif
#if defined(LOCI_HAS_AVX512)
    &avx512::kRoofline,
#endif
#if defined(LOCI_HAS_AVXVNNI)
    &avxvnni::kRoofline,
#endif
#if defined(LOCI_HAS_AVX2)
    &avx2::kRoofline,
#endif
    &scalar::kRoofline,
};

const RooflineKernels& roofline_kernels(std::string_view isa) {
#if defined(LOCI_HAS_AMX)
  if (isa == "amx") return amx_roofline();
#endif
  for (const RooflineKernels* kernels : kAll) {
    if (isa == kernels->name) return *kernels;
  }
  LOCI_CHECK(false, "no roofline loops for ", isa);
  return scalar::kRoofline;
}

// The loop for bf16 where this CPU has the instructions and the ISA in use is wide enough for them.
const RooflineKernels* bf16_kernels(std::string_view isa) {
#if defined(LOCI_HAS_AVX512BF16)
  if ((isa.starts_with("avx512") || isa == "amx") && __builtin_cpu_supports("avx512bf16"))
    return &avx512bf16::kRoofline;
#endif
  (void)isa;
  return nullptr;
}

// Most units per second over runs of `fn` on all threads, each doing `units` in all, for kSeconds.
template <typename Fn>
double best_rate(ThreadPool& pool, double units, Fn&& fn) {
  double best = 0;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kSeconds));
  for (int n_runs = 0; n_runs < kLeastRuns || Clock::now() < end; ++n_runs) {
    const Clock::time_point start = Clock::now();
    pool.run(pool.size(), fn);
    best = std::max(best, units / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// The same for a loop on registers; its number of rounds is raised until a run takes milliseconds, so that starting
// threads does not count.
template <typename Loop>
double peak(ThreadPool& pool, Loop loop, int64_t macs_per_round) {
  std::atomic<int64_t> sink{0};
  int64_t rounds = 1000;
  const auto run = [&](ThreadPool::Worker&) { sink.fetch_add(static_cast<int64_t>(loop(rounds))); };
  for (double seconds = 0; seconds < 2e-3; rounds *= 2) {
    const Clock::time_point start = Clock::now();
    pool.run(pool.size(), run);
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return best_rate(pool, static_cast<double>(rounds * macs_per_round) * pool.size(), run);
}

double read_rate(ThreadPool& pool, const RooflineKernels& kernels) {
  const std::shared_ptr<std::byte> memory = allocate_huge(kReadBytes);
  auto* const data = reinterpret_cast<uint8_t*>(memory.get());
  // Written once: pages that nobody has written are all the same one.
  pool.run(pool.size(), [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(static_cast<int64_t>(kReadBytes / kReadUnit));
    std::memset(data + begin * kReadUnit, 1, static_cast<size_t>(end - begin) * kReadUnit);
  });
  std::atomic<int64_t> sink{0};
  std::vector<size_t> slice(static_cast<size_t>(pool.size()), 0);  // of each worker, as it goes
  return best_rate(pool, static_cast<double>(kReadSlice), [&](ThreadPool::Worker& worker) {
    const auto [begin, end] = worker.part(static_cast<int64_t>(kReadSlice / kReadUnit));
    size_t& index = slice[static_cast<size_t>(worker.index)];
    const uint8_t* const first = data + index * kReadSlice + begin * kReadUnit;
    index = (index + 1) % (kReadBytes / kReadSlice);
    sink.fetch_add(kernels.read(first, static_cast<size_t>(end - begin) * kReadUnit));
  });
}

}  // namespace

Roofline measure_roofline(int n_threads, const ThreadPlacement& placement) {
  Roofline out;
  out.isa = choose_kernels().name;
  out.n_threads = n_threads;
  const RooflineKernels& kernels = roofline_kernels(out.isa);
  ThreadPool pool(n_threads, {plan_placement(placement, read_machine(), n_threads).mode});
  out.read_bytes = read_rate(pool, kernels);
  out.int8_macs = peak(pool, kernels.int8, kernels.int8_macs_per_round);
  out.f32_macs = peak(pool, kernels.f32, kernels.f32_macs_per_round);
  if (const RooflineKernels* bf16 = bf16_kernels(out.isa)) {
    out.bf16_macs = peak(pool, bf16->bf16, bf16->bf16_macs_per_round);
  }
  return out;
}

}  // namespace loci::cpu
