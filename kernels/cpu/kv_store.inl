// Conversion of K and V rows to a cache format. Pasted into the ISA units.

// kLanes codes at dst; the bits of Format::encode.
template <typename Format>
LOCI_HD void store_codes(typename Format::Code* dst, VecF values) {
  if constexpr (Format::kFormat == KvFormat::kF32) {
    values.store(dst);
  } else if constexpr (Format::kFormat == KvFormat::kF16) {
    store_f16(dst, values);
  } else {
    static_assert(Format::kFormat == KvFormat::kBF16);
    const VecI bits = as_int(values);
    // Adding half a unit of the part that is kept, a little less where that part is even: round to nearest even.
    const VecI rounded = shr<16>(bits + VecI::splat(0x7fff) + (shr<16>(bits) & VecI::splat(1)));
    const VecI quiet_nan = shr<16>(bits | VecI::splat(0x400000));
    const Mask is_number = abs(values) > VecF::splat(-1.0f);
    store_u16(dst, as_int(select(is_number, as_float(rounded), as_float(quiet_nan))));
  }
}

// Encodes n values; code i goes to dst[i * stride] (K: 16 codes apart, V: side by side).
void kv_encode(KvFormat format, const float* src, int n, std::byte* dst, int64_t stride) noexcept {
  visit_kv_format(format, [&](auto tag) {
    using Format = decltype(tag);
    using Code = typename Format::Code;
    Code* codes = reinterpret_cast<Code*>(dst);
    for (int i = 0; i < n; i += VecF::kLanes) {
      const int count = n - i < VecF::kLanes ? n - i : VecF::kLanes;
      if (stride == 1 && count == VecF::kLanes) {
        store_codes<Format>(codes + i, VecF::load(src + i));
        continue;
      }
      Code lanes[VecF::kLanes];
      store_codes<Format>(lanes, VecF::load_first(src + i, count));
      for (int j = 0; j < count; ++j) codes[(i + j) * stride] = lanes[j];
    }
  });
}
