// Names and sizes of the KV formats.
#include "kernels/kv_format/kv_layer.h"

#include "kernels/check.h"
#include "kernels/kv_format/kv_format_list.h"

namespace loci {

std::string_view name(KvFormat format) {
  std::string_view result = "?";
  visit_kv_format(format, [&](auto tag) { result = decltype(tag)::kName; });
  return result;
}

std::optional<KvFormat> kv_format_from_name(std::string_view name) {
#define LOCI_KV_NAME(Format) \
  if (name == Format::kName) return Format::kFormat;
  LOCI_FOR_EACH_KV_FORMAT(LOCI_KV_NAME)
#undef LOCI_KV_NAME
  return std::nullopt;
}

std::string kv_format_names() {
  std::string names;
#define LOCI_KV_NAME(Format) names += names.empty() ? Format::kName : std::string(", ") + Format::kName;
  LOCI_FOR_EACH_KV_FORMAT(LOCI_KV_NAME)
#undef LOCI_KV_NAME
  return names;
}

int kv_format_granule(KvFormat format) {
  int block = 1;
  visit_kv_format(format, [&](auto tag) { block = decltype(tag)::kBlock; });
  return block > 1 ? block : 4;
}

size_t kv_tile_bytes(KvFormat format, int head_dim) {
  LOCI_CHECK(head_dim > 0 && head_dim % kv_format_granule(format) == 0, "head dim ", head_dim, ", K/V format ",
             name(format));
  int64_t bytes = 0;
  visit_kv_format(format, [&](auto tag) { bytes = decltype(tag)::tile_bytes(head_dim); });
  return static_cast<size_t>(bytes);
}

size_t kv_page_bytes(KvFormat format, int page_size, int head_dim) {
  LOCI_CHECK(page_size > 0 && page_size % kKvTileTokens == 0, "page size ", page_size);
  return static_cast<size_t>(page_size / kKvTileTokens) * kv_tile_bytes(format, head_dim);
}

}  // namespace loci
