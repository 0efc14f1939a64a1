// Conversion of a token's K and V rows to a cache format, the bits of the format's write_k and write_v. Pasted into the
// ISA units.

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

// Encodes n values; code i goes to dst[i * stride].
template <typename Format>
void store_plain(const float* src, int n, typename Format::Code* codes, int64_t stride) noexcept {
  for (int i = 0; i < n; i += VecF::kLanes) {
    const int count = n - i < VecF::kLanes ? n - i : VecF::kLanes;
    if (stride == 1 && count == VecF::kLanes) {
      store_codes<Format>(codes + i, VecF::load(src + i));
      continue;
    }
    typename Format::Code lanes[VecF::kLanes];
    store_codes<Format>(lanes, VecF::load_first(src + i, count));
    for (int j = 0; j < count; ++j) codes[(i + j) * stride] = lanes[j];
  }
}

// One block of 32 channels; the bits of Format::encode.
template <typename Format>
void encode_block(const float* x, KvBlock& block) noexcept {
  constexpr int kVectors = KvBlock::kChannels / VecF::kLanes;
  VecI largest = VecI::zero();  // magnitudes compare as integers; NaN compares above infinity
  VecI most = VecI::splat(INT32_MIN);
  for (int i = 0; i < kVectors; ++i) {
    const VecI bits = as_int(VecF::load(x + i * VecF::kLanes));
    largest = max(largest, bits & VecI::splat(0x7fffffff));
    most = max(most, bits);
  }
  const int32_t amax_bits = reduce_max(largest);
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof(amax));
  encode_kv_block(x, amax, Format::scale_of(amax, reduce_max(most) == amax_bits), Format::kLeast, Format::kMost, block);
}

// K (keys) or V of one token: `row` [head_dim] to its place in the tile.
template <typename Format>
void store_token(bool keys, const float* row, int head_dim, std::byte* tile, int token) noexcept {
  if constexpr (Format::kBlock == 1) {
    auto* codes = reinterpret_cast<typename Format::Code*>(tile);
    if (keys) {
      store_plain<Format>(row, head_dim, codes + k_tile_index(token, 0), kKvTileTokens);
    } else {
      store_plain<Format>(row, head_dim, codes + v_tile_index(token, 0, head_dim), 1);
    }
  } else {
    for (int channel = 0; channel < head_dim; channel += Format::kBlock) {
      KvBlock block;
      encode_block<Format>(row + channel, block);
      if (keys) {
        Format::put_block(tile, token, channel, head_dim, block, Format::set_k);
      } else {
        Format::put_block(tile, token, channel, head_dim, block, Format::set_v);
      }
    }
  }
}

void kv_store_k(KvFormat format, const float* row, int head_dim, std::byte* tile, int token) noexcept {
  visit_kv_format(format, [&](auto tag) { store_token<decltype(tag)>(true, row, head_dim, tile, token); });
}

void kv_store_v(KvFormat format, const float* row, int head_dim, std::byte* tile, int token) noexcept {
  visit_kv_format(format, [&](auto tag) { store_token<decltype(tag)>(false, row, head_dim, tile, token); });
}
