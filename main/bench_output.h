// Prints the rows of `loci bench` in the shapes that llama-bench users know: md, csv, json, jsonl, sql.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "main/bench_options.h"

namespace loci::cli {

struct BenchRow {
  BenchSetup setup;
  BenchTest test;
  ModelInfo model;
  std::string test_time;             // ISO 8601, UTC, when the test began
  std::vector<uint64_t> samples_ns;  // one per repetition

  double avg_ns() const;
  double stddev_ns() const;                // of the sample; 0 for one repetition
  std::vector<double> samples_ts() const;  // tokens per second
  double avg_ts() const;
  double stddev_ts() const;
};

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
