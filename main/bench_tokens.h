// Token ids without meaning for benchmarks: speed does not depend on them. The same on every run.
#pragma once
#include <cstdint>
#include <vector>

namespace loci::cli {

class BenchTokens {
 public:
  explicit BenchTokens(int64_t vocab_size) : vocab_size_(static_cast<uint64_t>(vocab_size)) {}
  void append(int64_t n, std::vector<int32_t>& tokens) {
    for (int64_t i = 0; i < n; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
      tokens.push_back(static_cast<int32_t>((state_ >> 33) % vocab_size_));
    }
  }

 private:
  uint64_t vocab_size_;
  uint64_t state_ = 1;
};

}  // namespace loci::cli
