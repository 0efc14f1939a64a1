// Prints the rows of `loci bench` in the shapes that llama-bench users know: md, csv, json, jsonl, sql.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kernels/cpu/roofline.h"
#include "main/bench_options.h"
#include "main/bench_work.h"

namespace loci::cli {

struct BenchRow {
  BenchSetup setup;
  BenchTest test;
  ModelInfo model;
  std::string test_time;             // ISO 8601, UTC, when the test began
  std::vector<uint64_t> samples_ns;  // one per repetition
  BenchWork work;                    // of one repetition
  double kv_bytes_per_token = 0;     // K/V that attention has read in the last repetition
  std::optional<cpu::Roofline> roofline;

  double avg_ns() const;
  double stddev_ns() const;                // of the sample; 0 for one repetition
  std::vector<double> samples_ts() const;  // tokens per second
  double avg_ts() const;
  double stddev_ts() const;
  double bytes_per_token() const;
  double gb_per_s() const;     // 1e9 bytes
  double gmacs_per_s() const;  // 1e9 multiply-adds
  // Fractions of what the machine can do; 0 without a roofline.
  double read_share() const;
  double mac_share() const;
};

// "avx2, 2 threads: read 34.1 GB/s, int8 210, f32 105 GMAC/s".
std::string roofline_text(const cpu::Roofline& roofline);

class BenchPrinter {
 public:
  virtual ~BenchPrinter() = default;
  virtual void begin() {}
  virtual void row(const BenchRow& row) = 0;
  virtual void end() {}
};

// `format`: md, csv, json, jsonl or sql. `setups` tell which columns vary. Lines go to `out` as they are known.
std::unique_ptr<BenchPrinter> make_bench_printer(const std::string& format, const std::vector<BenchSetup>& setups,
                                                 std::FILE* out);

}  // namespace loci::cli
