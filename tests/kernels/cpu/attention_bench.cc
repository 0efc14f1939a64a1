// Micro-benchmark of CpuBackend::attention: attention_bench [n_threads] [filter]. Not a test.
//   decode   one row per layer against a long cache that does not fit the caches; ns per cached token and KV head
//   prefill  512 rows at a depth, in cache
//   shared   one row each of several sequences with a common prefix, read once or by each
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
  const size_t layer_bytes = layer.total_bytes();
  const size_t n_layers = std::max<size_t>(1, wanted_bytes / layer_bytes);
  pool.memory = backend.allocate(n_layers * layer_bytes);
  // One code that is small and finite in every format, as a scale too.
  for (size_t i = 0; i < n_layers * layer_bytes / 2; ++i) {
    const uint16_t code = static_cast<uint16_t>(0x3c00 + i % 128);
    std::memcpy(pool.memory.get() + 2 * i, &code, 2);
  }
  for (size_t i = 0; i < n_layers; ++i) {
    layer.base = pool.memory.get() + i * layer_bytes;
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

// Decode of n_seqs sequences that begin with the same `prefix` tokens and have `own` more each: cascade on against off,
// in turns.
void run_shared(const AttentionShape& shape, int n_seqs, int prefix, int own, int n_threads) {
  std::unique_ptr<Backend> backends[2];
  for (const bool on : {false, true}) {
    backends[on] = make_cpu_backend(
        {.n_threads = n_threads, .n_threads_batch = n_threads, .precise = false, .share_prefixes = on});
  }
  const int prefix_pages = prefix / 16, own_pages = (own + 15) / 16;
  Pool pool = make_pool(*backends[0], shape, (prefix_pages + n_seqs * own_pages) * 16, size_t{192} << 20, false);
  const std::vector<float> q = oracle::normal(static_cast<size_t>(n_seqs) * shape.n_heads * shape.head_dim, 1);
  std::vector<float> out(q.size());
  std::vector<int32_t> q_indptr{0}, page_indptr{0}, pages, positions;
  for (int s = 0; s < n_seqs; ++s) {
    for (int p = 0; p < prefix_pages; ++p) pages.push_back(p);
    for (int p = 0; p < own_pages; ++p) pages.push_back(prefix_pages + s * own_pages + p);
    page_indptr.push_back(static_cast<int32_t>(pages.size()));
    q_indptr.push_back(s + 1);
    positions.push_back(prefix_pages * 16 + own - 1);
  }
  AttentionArgs args;
  args.q = q.data();
  args.out = out.data();
  args.q_stride = args.out_stride = int64_t{shape.n_heads} * shape.head_dim;
  args.q_indptr = q_indptr;
  args.page_indptr = page_indptr;
  args.page_indices = pages;
  args.positions = positions;
  args.n_heads = shape.n_heads;
  args.scale = shape.scale();
  std::vector<double> times[2];
  const double deadline = seconds() + 2;
  for (int repeat = 0; repeat < 2 || seconds() < deadline; ++repeat) {
    for (const KvLayer& layer : pool.layers) {
      args.kv = layer;
      for (const bool on : {false, true}) {
        const double start = busy_seconds(n_threads);
        backends[on]->attention(args);
        times[on].push_back(busy_seconds(n_threads) - start);
      }
    }
  }
  for (auto& list : times) std::sort(list.begin(), list.end());
  const auto at = [&](bool on, double part) {
    return times[on][static_cast<size_t>(part * static_cast<double>(times[on].size()))] * 1e3;
  };
  const auto bytes = [&](bool on) {
    return static_cast<double>(backends[on]->kv_bytes_read()) / static_cast<double>(times[on].size()) / 1e6;
  };
  std::printf(
      "shared   %-4s G=%d D=%-3d %2d x (%d + %d): apart %.3f ms (p10 %.3f) %.1f MB, together %.3f ms (p10 %.3f) "
      "%.1f MB, ratio %.2f\n",
      std::string(name(shape.k_format)).c_str(), shape.n_heads / shape.n_kv_heads, shape.head_dim, n_seqs, prefix, own,
      at(false, 0.5), at(false, 0.1), bytes(false), at(true, 0.5), at(true, 0.1), bytes(true),
      at(false, 0.5) / at(true, 0.5));
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
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
    const auto shape = [&](int group, int n_kv_heads, int head_dim) {
      AttentionShape s;
      s.n_heads = group * n_kv_heads;
      s.n_kv_heads = n_kv_heads;
      s.head_dim = head_dim;
      s.k_format = s.v_format = format;
      return s;
    };
    if (!filter.empty() && filter != name(format) && filter != "decode" && filter != "prefill" && filter != "shared")
      continue;
    if (filter == "shared") {
      for (const int n_seqs : {2, 4, 16}) run_shared(shape(7, 2, 64), n_seqs, 2000, 64, n_threads);
      for (const int n_seqs : {2, 4, 16}) run_shared(shape(3, 3, 64), n_seqs, 2000, 64, n_threads);
      run_shared(shape(6, 2, 128), 16, 2000, 64, n_threads);
      run_shared(shape(4, 1, 256), 16, 2000, 64, n_threads);
      continue;
    }
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
