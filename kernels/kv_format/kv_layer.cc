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

size_t kv_page_bytes(KvFormat format, int page_size, int head_dim) {
  LOCI_CHECK(page_size > 0 && page_size % kKvTileTokens == 0, "page size ", page_size);
  LOCI_CHECK(head_dim > 0 && head_dim % 4 == 0, "head dim ", head_dim);
  size_t code_bytes = 0;
  visit_kv_format(format, [&](auto tag) { code_bytes = sizeof(typename decltype(tag)::Code); });
  return static_cast<size_t>(page_size) * static_cast<size_t>(head_dim) * code_bytes;
}

}  // namespace loci
