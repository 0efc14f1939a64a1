// Conversion of K and V rows to a cache format. Pasted into the ISA units.

// Encodes n values; code i goes to dst[i * stride] (K: 16 codes apart, V: side by side).
void kv_encode(KvFormat format, const float* src, int n, std::byte* dst, int64_t stride) noexcept {
  visit_kv_format(format, [&](auto tag) {
    using Format = decltype(tag);
    auto* codes = reinterpret_cast<typename Format::Code*>(dst);
    for (int i = 0; i < n; ++i) codes[i * stride] = Format::encode(src[i]);
  });
}
