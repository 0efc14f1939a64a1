// Decoder: the one forward pass. Batch -> K/V in pages, hidden rows -> logits rows. Knows no sampling, no requests.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch.h"
#include "engine/kv/kv_manager.h"
#include "engine/model/arch.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace loci {

// Buffers of one step, each [max_rows, stride].
struct Activations {
  float* x = nullptr;       // [dim] residual stream
  float* normed = nullptr;  // [dim] input of a block; output of a block before its post-norm
  float* q = nullptr;       // [n_heads * head_dim]
  float* k = nullptr;       // [n_kv_heads * head_dim]
  float* v = nullptr;       // [n_kv_heads * head_dim]
  float* attn = nullptr;    // [n_heads * head_dim]
  float* ffn = nullptr;     // [ffn_dim]
  int64_t dim_stride = 0, q_stride = 0, kv_stride = 0, ffn_stride = 0;
};

// Where a layer finds the K/V of a batch: as the batch says, or the same in window pages.
struct KvPlaces {
  std::span<const int64_t> slots, copy_slots;
  std::span<const int32_t> page_indices;
};

// What all layers of a step share; built once per step, const for the layers.
struct StepPlan {
  const Batch* batch = nullptr;
  uint64_t batch_id = 0;  // AttentionArgs::batch_id
  KvPlaces places, window_places;
  std::vector<RopeAngles> angles;  // per ArchSpec::ropes
  // Rows from here on are needed after the last layer has written its K/V.
  int64_t first_tail_row = 0;
  // Rows at position 0, ascending. Every later token attends to the first one of its sequence, whose activations are
  // outliers (attention sinks: Xiao et al. 2023, arXiv:2309.17453): 8-bit blocks would hurt it most, so its products
  // keep f32 activations in every mode.
  std::vector<int64_t> start_rows;
};

// Calls product(row, count) for the runs of [first_row, n_rows) that are computed alike.
template <typename Product>
void for_each_run(const StepPlan& plan, int64_t first_row, int64_t n_rows, Backend& backend, Product&& product) {
  int64_t next = first_row;
  for (const int64_t start : plan.start_rows) {
    if (start < next) continue;
    if (start > next) product(next, start - next);
    backend.force_precise(true);
    product(start, int64_t{1});
    backend.force_precise(false);
    next = start + 1;
  }
  if (n_rows > next) product(next, n_rows - next);
}

// Rows [first_row, n_rows) of a block's input and output: all, or in the last layer the tail.
// x += attention(norm(x)); writes K/V of all rows.
void attention_block(const ArchSpec& arch, const LayerSpec& layer, const LayerWeights& weights, const KvLayer& kv,
                     const KvPlaces& places, const StepPlan& plan, int64_t first_row, const Activations& a,
                     Backend& backend);
// x += ffn(norm(x))
void ffn_block(const ArchSpec& arch, const LayerWeights& weights, const StepPlan& plan, int64_t first_row,
               const Activations& a, Backend& backend);

class Decoder {
 public:
  // All references outlive the decoder. `max_rows`: most rows of one batch. Its K/V are the layers of `kv` from
  // first_kv_layer on.
  Decoder(const ArchSpec& arch, const Weights& weights, const KvManager& kv, Backend& backend, int max_rows,
          size_t first_kv_layer = 0);

  // Writes K/V of every row into its slot and computes the hidden rows of batch.logit_rows.
  // `abandon` is asked twice per layer; when it says true, forward returns false: some K/V of the batch's rows is then
  // missing, nothing else changed.
  // REQUIRES: n_rows <= max_rows; slots and pages as AttentionArgs wants them; tokens within the vocabulary.
  [[nodiscard]] bool forward(const Batch& batch, const std::function<bool()>& abandon = {});

  // Logits of batch.logit_rows[first .. first + count) of the last forward: [count, vocab_size], valid until the
  // next call. With `groups` of kOutputGroup token ids (ascending) only theirs, the others are minus infinity.
  // REQUIRES: count <= max_logit_rows().
  std::span<const float> logits(int64_t first, int64_t count, std::span<const int32_t> groups = {});
  // The hidden row, normed, of batch.logit_rows[i]: [dim], valid until the next forward.
  std::span<const float> hidden(int64_t i) const;
  int64_t max_logit_rows() const { return max_logit_rows_; }
  int64_t n_logit_rows() const { return n_logit_rows_; }
  int64_t bytes() const { return activation_rows_.bytes + logit_rows_.bytes; }

 private:
  // Rows of floats on small pages until half of them are used at once.
  struct Rows {
    std::shared_ptr<std::byte> memory;
    int64_t n_rows = 0, bytes = 0;
    bool whole = false;
  };
  Rows allocate_rows(int64_t n_rows, int64_t floats);
  void use_rows(Rows& rows, int64_t n_used);
  void place_windows(const Batch& batch);
  void embed(std::span<const int32_t> tokens);

  const ArchSpec& arch_;
  const Weights& weights_;
  const KvManager& kv_;
  Backend& backend_;
  int64_t max_rows_, max_logit_rows_;
  size_t first_kv_layer_;
  Rows activation_rows_, logit_rows_;
  Activations a_;
  float* logits_ = nullptr;  // [max_logit_rows, vocab_size]
  StepPlan plan_;
  bool has_window_pages_ = false;                          // some layer
  std::vector<int64_t> window_slots_, window_copy_slots_;  // of plan_.window_places
  std::vector<int32_t> window_page_indices_;
  std::vector<std::byte> embedding_rows_;  // of the batch's tokens, where they are read from the file
  std::vector<int32_t> row_ids_;           // 0, 1, ...
  int64_t n_logit_rows_ = 0;
};

}  // namespace loci
