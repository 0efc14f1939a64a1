#include "engine/model/decoder.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "gguf/gguf.h"
#include "kernels/check.h"

namespace loci {
namespace {

constexpr int64_t kLogitBytes = 32 << 20;  // logits are made a block of rows at a time: vocabularies reach 262,144
constexpr int64_t kAlignFloats = 16;

// Unlike any other of this process: decoders of several models share a backend.
uint64_t next_batch_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

int64_t aligned(int64_t n) { return (n + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

// Minus infinity for all of row [n] that lies in none of the groups.
void fill_between(std::span<const int32_t> groups, float* row, int64_t n) {
  int64_t done = 0;
  for (const int32_t group : groups) {
    const int64_t begin = int64_t{group} * kOutputGroup;
    std::fill(row + done, row + begin, -std::numeric_limits<float>::infinity());
    done = std::min(begin + kOutputGroup, n);
  }
  std::fill(row + done, row + n, -std::numeric_limits<float>::infinity());
}

}  // namespace

Decoder::Decoder(const ArchSpec& arch, const Weights& weights, const KvManager& kv, Backend& backend, int max_rows,
                 size_t first_kv_layer)
    : arch_(arch), weights_(weights), kv_(kv), backend_(backend), max_rows_(max_rows), first_kv_layer_(first_kv_layer) {
  int64_t q_dim = 0, kv_dim = 0;
  for (const LayerSpec& layer : arch.layers) {
    q_dim = std::max(q_dim, int64_t{layer.n_heads} * layer.head_dim);
    kv_dim = std::max(kv_dim, int64_t{layer.n_kv_heads} * layer.head_dim);
  }
  a_.dim_stride = aligned(arch.dim);
  a_.q_stride = aligned(q_dim);
  a_.kv_stride = aligned(kv_dim);
  a_.ffn_stride = aligned(arch.max_ffn_dim());
  max_logit_rows_ = std::clamp<int64_t>(kLogitBytes / (arch.vocab_size * int64_t{sizeof(float)}), 1, max_rows);
  const int64_t row_floats = 2 * a_.dim_stride + 2 * a_.q_stride + 2 * a_.kv_stride + a_.ffn_stride;
  activation_rows_ = allocate_rows(max_rows, max_rows * row_floats);
  logit_rows_ = allocate_rows(max_logit_rows_, max_logit_rows_ * arch.vocab_size);
  auto* next = reinterpret_cast<float*>(activation_rows_.memory.get());
  const auto take = [&](int64_t n) {
    float* start = next;
    next += n;
    return start;
  };
  a_.x = take(max_rows * a_.dim_stride);
  a_.normed = take(max_rows * a_.dim_stride);
  a_.q = take(max_rows * a_.q_stride);
  a_.attn = take(max_rows * a_.q_stride);
  a_.k = take(max_rows * a_.kv_stride);
  a_.v = take(max_rows * a_.kv_stride);
  a_.ffn = take(max_rows * a_.ffn_stride);
  logits_ = reinterpret_cast<float*>(logit_rows_.memory.get());
  plan_.angles.resize(arch.ropes.size());
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    has_window_pages_ = has_window_pages_ || kv.has_window_pages(first_kv_layer + i);
  }
}

Decoder::Rows Decoder::allocate_rows(int64_t n_rows, int64_t floats) {
  const int64_t bytes = floats * int64_t{sizeof(float)};
  return {.memory = backend_.allocate_sparse(static_cast<size_t>(bytes)), .n_rows = n_rows, .bytes = bytes};
}

void Decoder::use_rows(Rows& rows, int64_t n_used) {
  if (rows.whole || 2 * n_used < rows.n_rows) return;
  rows.whole = true;
  const size_t bytes = static_cast<size_t>(rows.bytes) / kHugePiece * kHugePiece;
  if (bytes > 0) backend_.use_whole(rows.memory.get(), bytes);
}

// Translates a batch's pages into window pages. Those behind the window of a sequence are gone: -1.
void Decoder::place_windows(const Batch& batch) {
  const int64_t page_size = kv_.page_size();
  const auto translate = [&](const std::vector<int64_t>& slots, std::vector<int64_t>& out) {
    out.clear();
    for (const int64_t slot : slots) {
      const int64_t page = kv_.window_page(static_cast<int32_t>(slot / page_size));
      LOCI_CHECK(page >= 0, "a row has no window page: slot ", slot);
      out.push_back(page * page_size + slot % page_size);
    }
    return std::span<const int64_t>(out);
  };
  plan_.window_places.slots = translate(batch.slots, window_slots_);
  plan_.window_places.copy_slots = translate(batch.copy_slots, window_copy_slots_);
  window_page_indices_.clear();
  for (const int32_t page : batch.page_indices) window_page_indices_.push_back(kv_.window_page(page));
  plan_.window_places.page_indices = window_page_indices_;
}

void Decoder::embed(std::span<const int32_t> tokens) {
  const TensorView& table = weights_.embedding;
  if (table.data == nullptr) {
    backend_.embed(*weights_.head, tokens, arch_.embedding_scale, a_.x, a_.dim_stride);
  } else if (weights_.embedding_file == nullptr) {
    backend_.embed(table, tokens, arch_.embedding_scale, a_.x, a_.dim_stride);
  } else {
    // Touched where they are mapped, some dozens of rows would bring in most of the table (MappedFile::read).
    const auto row_bytes = static_cast<size_t>(table.row_stride_bytes());
    embedding_rows_.resize(tokens.size() * row_bytes);
    row_ids_.resize(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      LOCI_CHECK(tokens[i] >= 0 && tokens[i] < table.n_rows(), "token id ", tokens[i], " of ", table.n_rows());
      weights_.embedding_file->read(table.row(tokens[i]), {embedding_rows_.data() + i * row_bytes, row_bytes});
      row_ids_[i] = static_cast<int32_t>(i);
    }
    TensorView rows = table;
    rows.data = embedding_rows_.data();
    rows.ne[1] = static_cast<int64_t>(tokens.size());
    backend_.embed(rows, row_ids_, arch_.embedding_scale, a_.x, a_.dim_stride);
  }
}

bool Decoder::forward(const Batch& batch, const std::function<bool()>& abandon) {
  const int64_t n_rows = batch.n_rows();
  LOCI_CHECK(n_rows > 0 && n_rows <= max_rows_, "rows of a batch: ", n_rows);
  n_logit_rows_ = 0;
  use_rows(activation_rows_, n_rows);
  plan_.batch = &batch;
  plan_.batch_id = next_batch_id();
  plan_.places = {.slots = batch.slots, .copy_slots = batch.copy_slots, .page_indices = batch.page_indices};
  if (has_window_pages_) place_windows(batch);
  plan_.first_tail_row = batch.logit_rows.empty() ? n_rows : batch.logit_rows.front();
  for (size_t i = 0; i < arch_.ropes.size(); ++i) {
    const bool scaled = i == 0;  // rope_freqs belongs to the model's main rope
    fill_rope_angles(arch_.ropes[i], scaled ? std::span<const float>(weights_.rope_freqs) : std::span<const float>(),
                     batch.positions, plan_.angles[i]);
  }
  plan_.start_rows.clear();
  for (int64_t row = 0; row < n_rows; ++row) {
    if (batch.positions[static_cast<size_t>(row)] == 0) plan_.start_rows.push_back(row);
  }
  embed(batch.tokens);
  for (size_t i = 0; i < arch_.layers.size(); ++i) {
    if (abandon && abandon()) return false;
    const int64_t first_row = i + 1 == arch_.layers.size() ? plan_.first_tail_row : 0;
    const size_t kv_layer = first_kv_layer_ + i;
    attention_block(arch_, arch_.layers[i], weights_.layers[i], kv_.layer(kv_layer),
                    kv_.has_window_pages(kv_layer) ? plan_.window_places : plan_.places, plan_, first_row, a_,
                    backend_);
    if (first_row == n_rows) continue;
    if (abandon && abandon()) return false;
    ffn_block(arch_, weights_.layers[i], plan_, first_row, a_, backend_);
  }
  // The final norm packs the wanted rows together; runs of neighbours go in one call.
  const std::vector<int32_t>& rows = batch.logit_rows;
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    backend_.rms_norm(a_.x + rows[begin] * a_.dim_stride, a_.dim_stride, weights_.output_norm.data(), arch_.norm_eps,
                      static_cast<int64_t>(end - begin), 1, arch_.dim,
                      a_.normed + static_cast<int64_t>(begin) * a_.dim_stride, a_.dim_stride);
    begin = end;
  }
  n_logit_rows_ = static_cast<int64_t>(rows.size());
  return true;
}

std::span<const float> Decoder::hidden(int64_t i) const {
  LOCI_CHECK(i >= 0 && i < n_logit_rows_, "hidden row ", i, " of ", n_logit_rows_);
  return {a_.normed + i * a_.dim_stride, static_cast<size_t>(arch_.dim)};
}

std::span<const float> Decoder::logits(int64_t first, int64_t count, std::span<const int32_t> groups) {
  LOCI_CHECK(first >= 0 && count >= 0 && count <= max_logit_rows_ && first + count <= n_logit_rows_, "logit rows ",
             first, " + ", count, " of ", n_logit_rows_);
  if (count == 0) return {};
  use_rows(logit_rows_, count);
  const int64_t n_vocab = arch_.vocab_size;
  const MatmulOut out{.weight = weights_.head.get(), .out = logits_, .out_stride = n_vocab, .groups = groups};
  backend_.matmul(std::span(&out, 1), a_.normed + first * a_.dim_stride, a_.dim_stride, count);
  if (arch_.final_softcap > 0) backend_.softcap(logits_, count * n_vocab, arch_.final_softcap);
  if (!groups.empty()) {
    for (float* row = logits_; row < logits_ + count * n_vocab; row += n_vocab) fill_between(groups, row, n_vocab);
  }
  return {logits_, static_cast<size_t>(count * n_vocab)};
}

}  // namespace loci
