#include "engine/kv/kv_memory.h"

#include <algorithm>

namespace loci {
namespace {

constexpr int64_t kAlign = 64;
constexpr auto kPiece = static_cast<int64_t>(kHugePiece);

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Counts `bytes` from offset `at` on in the pieces that they lie in.
void add_used(int64_t at, int64_t bytes, std::vector<int64_t>& used) {
  for (const int64_t end = at + bytes; at < end;) {
    const int64_t piece = at / kPiece;
    const int64_t n = std::min(end, (piece + 1) * kPiece) - at;
    used[static_cast<size_t>(piece)] += n;
    at += n;
  }
}

}  // namespace

KvMemory::KvMemory(std::span<KvLayer> layers, Backend& backend) : backend_(backend) {
  for (const KvLayer& layer : layers) bytes_ += aligned(static_cast<int64_t>(layer.total_bytes()));
  memory_ = backend.allocate_sparse(static_cast<size_t>(bytes_));
  std::byte* base = memory_.get();
  for (KvLayer& layer : layers) {
    layer.base = base;
    base += aligned(static_cast<int64_t>(layer.total_bytes()));
  }
  if (bytes_ >= kPiece) is_huge_.assign(static_cast<size_t>((bytes_ + kPiece - 1) / kPiece), false);
}

void KvMemory::use(std::span<const KvLayer> layers, std::span<const int64_t> n_pages) {
  if (is_huge_.empty()) return;
  std::vector<int64_t> used(is_huge_.size(), 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    const KvLayer& layer = layers[i];
    for (int head = 0; head < layer.n_kv_heads; ++head) {
      add_used(layer.k_page(head, 0) - memory_.get(), static_cast<int64_t>(layer.k_page_bytes()) * n_pages[i], used);
      add_used(layer.v_page(head, 0) - memory_.get(), static_cast<int64_t>(layer.v_page_bytes()) * n_pages[i], used);
    }
  }
  for (size_t begin = 0; begin < used.size();) {
    size_t end = begin;
    for (; end < used.size() && !is_huge_[end] && 2 * used[end] >= kPiece; ++end) is_huge_[end] = true;
    if (end > begin) backend_.use_whole(memory_.get() + begin * kHugePiece, (end - begin) * kHugePiece);
    begin = end + 1;
  }
}

int64_t KvMemory::huge_bytes() const { return std::count(is_huge_.begin(), is_huge_.end(), true) * kPiece; }

}  // namespace loci
