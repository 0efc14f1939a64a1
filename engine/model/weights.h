// Weights: the tensors of a model by role. Names and shapes are checked against the ArchSpec before anything is
// converted; messages name the tensor, the expected shape and the one found.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/model/arch.h"
#include "gguf/gguf.h"
#include "kernels/backend.h"

namespace loci {

// Vectors are empty where the model has none.
struct LayerWeights {
  std::vector<float> attn_norm, post_attn_norm, ffn_norm, post_ffn_norm;  // [dim]
  std::vector<float> q_norm, k_norm;                                      // [head_dim]
  std::vector<float> q_bias, k_bias, v_bias;                              // [heads * head_dim]
  std::vector<float> o_bias, down_bias;                                   // [dim]
  std::vector<float> sinks;                                               // [n_heads]
  std::unique_ptr<PackedWeight> q, k, v;                                  // dim -> heads * head_dim
  std::unique_ptr<PackedWeight> o;                                        // n_heads * head_dim -> dim
  std::unique_ptr<PackedWeight> gate, up;                                 // dim -> ffn_dim
  std::unique_ptr<PackedWeight> down;                                     // ffn_dim -> dim
};

struct Weights {
  TensorView embedding;                        // [vocab_size, dim]; unset when tied: rows come from `head`
  const gguf::File* embedding_file = nullptr;  // rows are read from it; null: they lie in memory
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;                    // [dim]
  std::vector<float> rope_freqs;                     // [n_rot / 2] divisors, or empty
  std::unique_ptr<PackedWeight> head;                // dim -> vocab_size
  std::vector<TensorView> sources;                   // read where they lie: in the mapped file or in `copies`
  std::vector<std::unique_ptr<std::byte[]>> copies;  // of sources, when not the mapped file
  int64_t bytes = 0;                                 // memory held by all of it, the mapped file apart
  int64_t n_params = 0;                              // elements of all tensors in use
};

struct WeightOptions {
  bool keep_mapped = true;  // false: nothing reads the file after loading
};

// Throws what load_weights would throw for missing, misshapen or uncomputable tensors, without converting any.
// Returns the names of tensors that the architecture does not use.
std::vector<std::string> check_weights(const gguf::File& file, const ArchSpec& arch);

// The file's pages are given back while they are converted: there are never two copies of a matrix.
Weights load_weights(const gguf::File& file, const ArchSpec& arch, Backend& backend, const WeightOptions& options,
                     const LoadProgress& progress = {});

// Keeps what the weights compute with out of swap: everything that `backend` has prepared, and what they read where it
// lies. Returns an empty string, or why not (the limit and how to raise it).
std::string lock_weights(const Weights& weights, const std::string& path, Backend& backend);

}  // namespace loci
