// KvLayer: one layer's K/V pages as kernels see them. Formats are in this folder, one header each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace loci {

// Storage of cached K or V. Names are those of -ctk / -ctv. One file and one line in kv_format_list.h each.
enum class KvFormat { kF32, kF16, kBF16 };

std::string_view name(KvFormat format);
std::optional<KvFormat> kv_format_from_name(std::string_view name);
// Bytes of one page of one head's K (or V) plane: page_size tokens of head_dim values. A multiple of 64.
size_t kv_page_bytes(KvFormat format, int page_size, int head_dim);

// Layout of a layer: for each KV head first its K plane, then its V plane; a plane is n_pages pages back to back,
// so that neighbouring page ids are one stream (docs/numerics.md).  Inside a page: tiles of 16 tokens.
//   K tile f32/f16/bf16: [head_dim][16]     (channel-major: 16 tokens side by side)
//   V tile f32/f16/bf16: [16][head_dim]     (token-major)
// REQUIRES: page_size is a multiple of 16.
struct KvLayer {
  std::byte* base = nullptr;
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  int n_kv_heads = 0;
  int head_dim = 0;
  int page_size = 16;
  int64_t n_pages = 0;

  size_t k_page_bytes() const { return kv_page_bytes(k_format, page_size, head_dim); }
  size_t v_page_bytes() const { return kv_page_bytes(v_format, page_size, head_dim); }
  size_t head_bytes() const { return (k_page_bytes() + v_page_bytes()) * static_cast<size_t>(n_pages); }
  size_t total_bytes() const { return head_bytes() * static_cast<size_t>(n_kv_heads); }
  std::byte* k_page(int head, int64_t page) const { return base + head * head_bytes() + page * k_page_bytes(); }
  std::byte* v_page(int head, int64_t page) const {
    return base + head * head_bytes() + k_page_bytes() * static_cast<size_t>(n_pages) + page * v_page_bytes();
  }
};

}  // namespace loci
