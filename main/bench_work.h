// What a measured run had to do at least: bytes read and multiply-adds, counted from the model's shape. With what the
// machine can do (kernels/cpu/roofline.h) this says how far from its ceiling a speed is.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/model/arch.h"
#include "engine/model/matrix_work.h"
#include "kernels/cpu/roofline.h"

namespace loci::cli {

struct BenchWork {
  double bytes = 0;                                   // read from memory
  double int8_macs = 0, bf16_macs = 0, f32_macs = 0;  // multiply-adds, by the arithmetic they could be done in

  double macs() const { return int8_macs + bf16_macs + f32_macs; }
  // Seconds that reading alone, and multiplying alone, would take at the machine's ceiling.
  double read_seconds(const cpu::Roofline& roofline) const { return bytes / roofline.read_bytes; }
  double mac_seconds(const cpu::Roofline& roofline) const;
};

// Rows of one sequence in a forward pass: positions [first, first + n).
struct BenchRows {
  int64_t first = 0, n = 0;
};

class BenchWorkCounter {
 public:
  BenchWorkCounter(const ArchSpec& arch, const ModelWork& matrices, const EngineConfig& config)
      : arch_(arch), matrices_(matrices), config_(config) {}

  // One forward pass: every weight is read once, the head only when logits are wanted; of each sequence the K/V that
  // its rows see are read once.
  void add_pass(const std::vector<BenchRows>& sequences, int64_t n_logit_rows);
  // Prefill of positions [first, first + n) of one sequence, a micro-batch at a time; logits of the last row.
  void add_prefill(int64_t first, int64_t n);
  const BenchWork& work() const { return work_; }

 private:
  const ArchSpec& arch_;
  const ModelWork& matrices_;
  const EngineConfig& config_;
  BenchWork work_;
};

// Bytes of the K/V pools with room for `n_tokens` of the configuration's model. Throws Error.
int64_t kv_pool_bytes(const EngineConfig& config, int64_t n_tokens);

}  // namespace loci::cli
