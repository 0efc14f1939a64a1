// Tiny synthetic models of every architecture, for tests without real ones: random weights that keep activations of
// order one, a byte-level vocabulary that can spell any text.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"
#include "kernels/dtype.h"

namespace loci::test {

struct TinyModel {
  std::string arch = "llama";
  int n_layers = 2;
  int dim = 64;
  int n_heads = 4, n_kv_heads = 2;
  int head_dim = 16;
  int ffn_dim = 96;
  int n_ctx = 1024;
  DType type = DType::kF32;  // of the matrices; dim, ffn_dim and n_heads * head_dim are multiples of its block
  bool tied = false;         // no output.weight
  bool fused_qkv = false;    // attn_qkv instead of three matrices
  bool rope_freqs = false;
  bool biases = false;  // optional biases everywhere (those an architecture requires are always there)
  int window = 0;       // sliding_window, for architectures with windows
  uint32_t seed = 1;
  // Called after the keys were set and may replace them.
  std::function<void(gguf::Writer&)> keys = {};
  // Called with each tensor's f32 values before they are packed.
  std::function<void(std::string_view name, std::vector<float>& values)> edit = {};
  // Called with the name of each tensor: false leaves it out.
  std::function<bool(std::string_view name)> wanted = {};
};

// Byte-level BPE: 256 bytes, 6 merges, "<|endoftext|>", "<|im_start|>", "<|im_end|>".
inline constexpr int kTinyVocab = 265;
inline constexpr int32_t kTinyEndOfText = 262, kTinyImStart = 263, kTinyImEnd = 264;

void write_tiny_model(const TinyModel& model, const std::string& path);
// Writes it into a directory that is removed when the test program ends, and returns the path.
std::string tiny_model_file(const TinyModel& model);
// A fresh path in that directory.
std::string temporary_path(const std::string& name);
// `n` token ids from a fixed pseudo-random sequence, none of them special.
std::vector<int32_t> random_tokens(int n, uint32_t seed);

}  // namespace loci::test
