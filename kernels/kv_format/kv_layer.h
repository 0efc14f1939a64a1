// KvLayer: one layer's K/V pages as kernels see them. Formats are in this folder, one header each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace loci {

// Storage of cached K or V. Names are those of -ctk / -ctv. One file and one line in kv_format_list.h each.
enum class KvFormat { kF32, kF16, kBF16, kQ8_0, kQ4_0 };

std::string_view name(KvFormat format);
std::optional<KvFormat> kv_format_from_name(std::string_view name);
// "f32, f16, bf16, ...", for messages.
std::string kv_format_names();
// Head dims must be a multiple of this: 32 where channels share a scale, else 4.
int kv_format_granule(KvFormat format);
// Bytes of a tile of 16 tokens of one head's K (or V), a multiple of 64.
size_t kv_tile_bytes(KvFormat format, int head_dim);
// Bytes of one page of one head's K (or V) plane: page_size tokens of head_dim values. A multiple of 64.
size_t kv_page_bytes(KvFormat format, int page_size, int head_dim);

// Layout of a layer: for each KV head first its K plane, then its V plane; a plane is n_pages pages back to back,
// so that neighbouring page ids are one stream (docs/attention.md).  Inside a page: tiles of 16 tokens (kv_tile.h).
// REQUIRES: page_size is a multiple of 16, head_dim of kv_format_granule of both formats.
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
