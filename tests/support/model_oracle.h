// The oracle of whole models: textbook transformer in double, no cache, no batching, every prefix from scratch.
// Reads the file by itself, by architecture name, and shares nothing with the engine but the reader and unpacking.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace loci::test {

class ModelOracle {
 public:
  explicit ModelOracle(const std::string& path);
  // Logits at every position: [n_tokens][n_vocab].
  std::vector<std::vector<double>> logits(const std::vector<int32_t>& tokens) const;

 private:
  using Rows = std::vector<std::vector<double>>;
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  const std::vector<float>& values(const std::string& name) const { return tensors_.at(name); }
  double number(const std::string& suffix, double missing) const;
  Rows linear(const Rows& x, const std::string& name) const;  // name.weight, name.bias
  std::vector<double> norm(const std::vector<double>& x, const std::string& name) const;
  void norm_heads(std::vector<double>& x, const std::string& name) const;
  void rotate(std::vector<double>& x, int position, double base, double scale) const;
  Rows attention(const Rows& normed, int layer) const;
  Rows ffn(const Rows& normed, int layer) const;

  gguf::File file_;
  std::string arch_;
  std::map<std::string, std::vector<float>> tensors_;
  int dim_, n_layers_, n_heads_, n_kv_heads_, head_dim_;
  double eps_;
};

}  // namespace loci::test
