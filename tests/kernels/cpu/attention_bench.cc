// Micro-benchmark of CpuBackend::attention: attention_bench [n_threads] [filter]. Not a test.
//   decode   one row per layer against a long cache that does not fit the caches; ns per cached token and KV head
//   prefill  512 rows at a depth, in cache
// Columns: time, bytes of K/V read per second, multiply-adds per second over all threads.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "tests/kernels/cpu/attention_harness.h"

namespace loci {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// With one thread, processor time: a busy machine then disturbs less.
double busy_seconds(int n_threads) {
  if (n_threads > 1) return seconds();
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Pool {
  std::vector<KvLayer> layers;
  std::shared_ptr<std::byte> memory;
  std::vector<int32_t> pages;  // of the one sequence
};

Pool make_pool(Backend& backend, const AttentionShape& shape, int n_tokens, size_t wanted_bytes, bool scatter) {
  KvLayer layer;
  layer.k_format = shape.k_format;
  layer.v_format = shape.v_format;
  layer.n_kv_heads = shape.n_kv_heads;
  layer.head_dim = shape.head_dim;
  layer.page_size = 16;
  layer.n_pages = (n_tokens + 15) / 16;
  Pool pool;
  const size_t n_layers = std::max<size_t>(1, wanted_bytes / layer.total_bytes());
  pool.memory = backend.allocate(n_layers * layer.total_bytes());
  // One code that is small and finite in every format.
  for (size_t i = 0; i < n_layers * layer.total_bytes() / 2; ++i) {
    const uint16_t code = static_cast<uint16_t>(0x3c00 + i % 128);
    std::memcpy(pool.memory.get() + 2 * i, &code, 2);
  }
  for (size_t i = 0; i < n_layers; ++i) {
    layer.base = pool.memory.get() + i * layer.total_bytes();
    pool.layers.push_back(layer);
  }
  pool.pages.resize(layer.n_pages);
  std::iota(pool.pages.begin(), pool.pages.end(), 0);
  if (scatter) std::shuffle(pool.pages.begin(), pool.pages.end(), std::mt19937(1));
  return pool;
}

void run(const char* kind, const AttentionShape& shape, int depth, int n_rows, size_t pool_bytes, bool scatter,
         int n_threads) {
  CpuBackendConfig config;
  config.n_threads = config.n_threads_batch = n_threads;
  const auto backend = make_cpu_backend(config);
  const int n_tokens = depth + n_rows;
  const Pool pool = make_pool(*backend, shape, n_tokens, pool_bytes, scatter);
  const std::vector<float> q = oracle::normal(static_cast<size_t>(n_rows) * shape.n_heads * shape.head_dim, 1);
  std::vector<float> out(q.size());
  std::vector<int32_t> positions(n_rows);
  std::iota(positions.begin(), positions.end(), depth);
  const std::vector<int32_t> q_indptr{0, n_rows}, page_indptr{0, static_cast<int32_t>(pool.pages.size())};
  AttentionArgs args;
  args.q = q.data();
  args.out = out.data();
  args.q_stride = args.out_stride = int64_t{shape.n_heads} * shape.head_dim;
  args.q_indptr = q_indptr;
  args.page_indptr = page_indptr;
  args.page_indices = pool.pages;
  args.positions = positions;
  args.n_heads = shape.n_heads;
  args.scale = shape.scale();
  std::vector<double> times;
  const double deadline = seconds() + 0.6;
  for (int repeat = 0; repeat < 3 || seconds() < deadline; ++repeat) {
    for (const KvLayer& layer : pool.layers) {
      args.kv = layer;
      const double start = busy_seconds(n_threads);
      backend->attention(args);
      times.push_back(busy_seconds(n_threads) - start);
    }
  }
  std::sort(times.begin(), times.end());
  const double best = times[times.size() / 10];  // the tenth percentile: undisturbed, but not a lucky one
  double row_keys = 0;
  for (const int32_t position : positions) row_keys += position + 1;
  const double macs = 2.0 * row_keys * shape.n_heads * shape.head_dim;
  const double bytes = static_cast<double>(pool.layers[0].total_bytes());
  std::printf(
      "%-8s %-4s G=%d D=%-3d rows %3d depth %5d %-4s  %8.3f ms  %6.2f ns/(token,head)  %5.1f GB/s  %6.1f GMAC/s\n",
      kind, std::string(name(shape.k_format)).c_str(), shape.n_heads / shape.n_kv_heads, shape.head_dim, n_rows, depth,
      scatter ? "rand" : "run", best * 1e3, best * 1e9 / n_tokens / shape.n_kv_heads, bytes / best / 1e9,
      macs / best / 1e9);
  std::fflush(stdout);
}

}  // namespace
}  // namespace loci

int main(int argc, char** argv) {
  using namespace loci;
  const int n_threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string filter = argc > 2 ? argv[2] : "";
  std::printf("%s\n", make_cpu_backend({.n_threads = n_threads})->describe().c_str());
  const size_t big = size_t{192} << 20;
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32}) {
    const auto shape = [&](int group, int n_kv_heads, int head_dim) {
      AttentionShape s;
      s.n_heads = group * n_kv_heads;
      s.n_kv_heads = n_kv_heads;
      s.head_dim = head_dim;
      s.k_format = s.v_format = format;
      return s;
    };
    if (!filter.empty() && filter != name(format) && filter != "decode" && filter != "prefill") continue;
    if (filter != "prefill") {
      run("short", shape(3, 3, 64), 63, 1, 0, false, n_threads);
      run("short", shape(3, 3, 64), 255, 1, 0, false, n_threads);
      run("cached", shape(7, 1, 64), 2047, 1, 0, false, n_threads);
      run("cached", shape(8, 1, 128), 1023, 1, 0, false, n_threads);
      run("decode", shape(7, 2, 64), 8191, 1, big, false, n_threads);
      run("decode", shape(7, 2, 64), 8191, 1, big, true, n_threads);
      run("decode", shape(3, 3, 64), 8191, 1, big, false, n_threads);
      run("decode", shape(1, 4, 64), 8191, 1, big, false, n_threads);
      run("decode", shape(6, 2, 128), 8191, 1, big, false, n_threads);
      run("decode", shape(4, 1, 256), 8191, 1, big, false, n_threads);
    }
    if (filter != "decode") {
      run("prefill", shape(7, 2, 64), 0, 512, 0, false, n_threads);
      run("prefill", shape(7, 2, 64), 2048, 512, 0, false, n_threads);
      run("prefill", shape(3, 3, 64), 0, 512, 0, false, n_threads);
      run("prefill", shape(6, 2, 128), 2048, 512, 0, false, n_threads);
      run("prefill", shape(4, 1, 256), 2048, 512, 0, false, n_threads);
    }
  }
  return 0;
}
