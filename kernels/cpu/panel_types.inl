// One struct per quantized panel type (panel_format.h): how a block of 16 rows x 32 elements becomes codes and scales.
// Pasted into isa_kernels.cc. matmul.inl is the generic user; a type adds about 20 lines here.
//
//   kUnitBytes, kBlocks   bytes of a unit and its blocks of 32 elements
//   kBits                 bits of a code; 8 means codes carry an offset of 128
//   kOffset               code that stands for zero (0: none)
//   kHasMin               each block (or half) has a minimum to add
//   kHalves               scales belong to 16 elements instead of 32
//   Unit(unit, r0)        reads what is shared by the unit's blocks, for lanes r0 .. r0 + kLanes - 1
//   code<shift, g>(b)     byte 4r + i = code of element 4g + i of lane r, times 2^shift
//   scale(b, half), minimum(b, half)    value = scale * (code - offset) + minimum
//
// `shift` moves codes to the top of the byte, so that all offsets become 128 and one prepared sum serves all types.

LOCI_HD float float_of_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
LOCI_HD const uint16_t* halves_at(const uint8_t* p) { return reinterpret_cast<const uint16_t*>(p); }

// nib: elements 0..15 in groups 0..3, 16..31 in groups 4..7.
template <int kShift, int kG>
LOCI_HD VecB nib_code(const uint8_t* nib, int r0) {
  const VecB mask = VecB::splat(static_cast<uint8_t>(15 << kShift));
  const VecB q = VecB::load(nib + 64 * (kG % 4) + 4 * r0);
  if constexpr (kG < 4) {
    return shl<kShift>(q) & mask;
  } else {
    return shr<4 - kShift>(q) & mask;
  }
}

// Bits kFrom .. of each byte moved to kTo .., masked by `mask` there.
template <int kFrom, int kTo>
LOCI_HD VecB moved_bits(VecB bytes, int mask) {
  const VecB wanted = VecB::splat(static_cast<uint8_t>(mask << kTo));
  if constexpr (kTo >= kFrom) {
    return shl<kTo - kFrom>(bytes) & wanted;
  } else {
    return shr<kFrom - kTo>(bytes) & wanted;
  }
}
// hi: bit kG of each byte, moved to bit kTo.
template <int kTo, int kG>
LOCI_HD VecB hi_bit(const uint8_t* hi) {
  return moved_bits<kG, kTo>(VecB::load(hi), 1);
}
// top, top: two bits of each byte of the group's vector, moved to bits kTo, kTo + 1.
template <int kTo, int kG>
LOCI_HD VecB top_bits(const uint8_t* top) {
  return moved_bits<2 * (kG % 4), kTo>(VecB::load(top + 64 * (kG / 4)), 3);
}

// All groups of a block.
template <int kShift, int kG = 0, class Q>
LOCI_HD void codes(const Q& unit, int b, VecB w[8]) {
  if constexpr (kG < 8) {
    w[kG] = unit.template code<kShift, kG>(b);
    codes<kShift, kG + 1>(unit, b, w);
  }
}

struct TypeQ4_0 {
  static constexpr int kUnitBytes = 288, kBlocks = 1, kBits = 4, kOffset = 8;
  static constexpr bool kHasMin = false, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeQ4_0(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return nib_code<kShift, kG>(unit + 32, r0);
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
};

struct TypeQ4_1 {
  static constexpr int kUnitBytes = 320, kBlocks = 1, kBits = 4, kOffset = 0;
  static constexpr bool kHasMin = true, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeQ4_1(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return nib_code<kShift, kG>(unit + 64, r0);
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
  LOCI_HD VecF minimum(int, int) const { return VecF::load_f16(halves_at(unit + 32) + r0); }
};

struct TypeQ5_0 {
  static constexpr int kUnitBytes = 352, kBlocks = 1, kBits = 5, kOffset = 16;
  static constexpr bool kHasMin = false, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeQ5_0(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return nib_code<kShift, kG>(unit + 96, r0) | hi_bit<4 + kShift, kG>(unit + 32 + 4 * r0);
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
};

struct TypeQ5_1 {
  static constexpr int kUnitBytes = 384, kBlocks = 1, kBits = 5, kOffset = 0;
  static constexpr bool kHasMin = true, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeQ5_1(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return nib_code<kShift, kG>(unit + 128, r0) | hi_bit<4 + kShift, kG>(unit + 64 + 4 * r0);
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
  LOCI_HD VecF minimum(int, int) const { return VecF::load_f16(halves_at(unit + 32) + r0); }
};

struct TypeQ8_0 {
  static constexpr int kUnitBytes = 544, kBlocks = 1, kBits = 8, kOffset = 128;
  static constexpr bool kHasMin = false, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeQ8_0(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return VecB::load(unit + 32 + 64 * kG + 4 * r0);
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
};

// The 16 values of the 4-bit codebooks, plus 128 (IQ4_NL), or plus 16 (MXFP4, in units of one half).
constexpr uint8_t kIQ4_NLTable[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
constexpr uint8_t kMXFP4Table[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
constexpr uint8_t kMXFP4TableTop[16] = {128, 136, 144, 152, 160, 176, 192, 224, 128, 120, 112, 104, 96, 80, 64, 32};

struct TypeIQ4_NL {
  static constexpr int kUnitBytes = 288, kBlocks = 1, kBits = 8, kOffset = 128;
  static constexpr bool kHasMin = false, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeIQ4_NL(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    return lookup(Table16::load(kIQ4_NLTable), nib_code<0, kG>(unit + 32, r0));
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_f16(halves_at(unit) + r0); }
};

struct TypeMXFP4 {
  static constexpr int kUnitBytes = 288, kBlocks = 1, kBits = 5, kOffset = 16;
  static constexpr bool kHasMin = false, kHalves = false;
  const uint8_t* unit;
  int r0;
  LOCI_HD TypeMXFP4(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int) const {
    static_assert(kShift == 0 || kShift == 3);
    return lookup(Table16::load(kShift == 0 ? kMXFP4Table : kMXFP4TableTop), nib_code<0, kG>(unit + 32, r0));
  }
  LOCI_HD VecF scale(int, int) const { return VecF::load_bf16(halves_at(unit) + r0); }
};

struct TypeQ2_K {
  static constexpr int kUnitBytes = 1344, kBlocks = 8, kBits = 2, kOffset = 0;
  static constexpr bool kHasMin = true, kHalves = true;
  const uint8_t* unit;
  int r0;
  VecF d, dmin;
  LOCI_HD TypeQ2_K(const uint8_t* unit_, int r0_)
      : unit(unit_),
        r0(r0_),
        d(VecF::load_f16(halves_at(unit_) + r0_)),
        dmin(VecF::load_f16(halves_at(unit_ + 32) + r0_)) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int b) const {
    return top_bits<kShift, kG>(unit + 320 + 128 * b + 4 * r0);
  }
  LOCI_HD VecI packed(int b, int half) const { return VecI::load_u8(unit + 64 + 16 * (2 * b + half) + r0); }
  LOCI_HD VecF scale(int b, int half) const { return d * to_float(packed(b, half) & VecI::splat(15)); }
  LOCI_HD VecF minimum(int b, int half) const { return VecF::zero() - dmin * to_float(shr<4>(packed(b, half))); }
};

struct TypeQ3_K {
  static constexpr int kUnitBytes = 1760, kBlocks = 8, kBits = 3, kOffset = 4;
  static constexpr bool kHasMin = false, kHalves = true;
  const uint8_t* unit;
  int r0;
  VecF d;
  LOCI_HD TypeQ3_K(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_), d(VecF::load_f16(halves_at(unit_) + r0_)) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int b) const {
    const uint8_t* group = unit + 224 + 192 * b + 4 * r0;
    return top_bits<kShift, kG>(group) | hi_bit<2 + kShift, kG>(group + 128);
  }
  // Group k of 16: the low four bits lie in byte k % 8, the top two in byte 8 + k % 4.
  LOCI_HD VecF scale(int b, int half) const {
    const int k = 2 * b + half;
    const VecI low = VecI::load_u8(unit + 32 + 16 * (k % 8) + r0);
    const VecI high = VecI::load_u8(unit + 32 + 16 * (8 + k % 4) + r0);
    const VecI low4 = (k < 8 ? low : shr<4>(low)) & VecI::splat(15);
    const int pair = k / 4;
    const VecI high2 = pair == 0 ? shl<4>(high) : pair == 1 ? shl<2>(high) : pair == 2 ? high : shr<2>(high);
    return d * to_float((low4 | (high2 & VecI::splat(48))) - VecI::splat(32));
  }
};

// The 6-bit scales and minimums of Q4_K and Q5_K.
struct KScales {
  const uint8_t* packed;  // [12][16]
  int r0;
  LOCI_HD VecI byte(int j) const { return VecI::load_u8(packed + 16 * j + r0); }
  LOCI_HD VecI scale(int j) const {
    if (j < 4) return byte(j) & VecI::splat(63);
    return (byte(j + 4) & VecI::splat(15)) | shl<4>(shr<6>(byte(j - 4)));
  }
  LOCI_HD VecI minimum(int j) const {
    if (j < 4) return byte(j + 4) & VecI::splat(63);
    return shr<4>(byte(j + 4)) | shl<4>(shr<6>(byte(j)));
  }
};

struct TypeQ4_K {
  static constexpr int kUnitBytes = 2304, kBlocks = 8, kBits = 4, kOffset = 0;
  static constexpr bool kHasMin = true, kHalves = false;
  const uint8_t* unit;
  int r0;
  VecF d, dmin;
  LOCI_HD TypeQ4_K(const uint8_t* unit_, int r0_)
      : unit(unit_),
        r0(r0_),
        d(VecF::load_f16(halves_at(unit_) + r0_)),
        dmin(VecF::load_f16(halves_at(unit_ + 32) + r0_)) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int b) const {
    return nib_code<kShift, kG>(unit + 256 + 256 * b, r0);
  }
  LOCI_HD VecF scale(int b, int) const { return d * to_float(KScales{unit + 64, r0}.scale(b)); }
  LOCI_HD VecF minimum(int b, int) const { return VecF::zero() - dmin * to_float(KScales{unit + 64, r0}.minimum(b)); }
};

struct TypeQ5_K {
  static constexpr int kUnitBytes = 2816, kBlocks = 8, kBits = 5, kOffset = 0;
  static constexpr bool kHasMin = true, kHalves = false;
  const uint8_t* unit;
  int r0;
  VecF d, dmin;
  LOCI_HD TypeQ5_K(const uint8_t* unit_, int r0_)
      : unit(unit_),
        r0(r0_),
        d(VecF::load_f16(halves_at(unit_) + r0_)),
        dmin(VecF::load_f16(halves_at(unit_ + 32) + r0_)) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int b) const {
    const uint8_t* group = unit + 256 + 320 * b;
    return nib_code<kShift, kG>(group + 64, r0) | hi_bit<4 + kShift, kG>(group + 4 * r0);
  }
  LOCI_HD VecF scale(int b, int) const { return d * to_float(KScales{unit + 64, r0}.scale(b)); }
  LOCI_HD VecF minimum(int b, int) const { return VecF::zero() - dmin * to_float(KScales{unit + 64, r0}.minimum(b)); }
};

struct TypeQ6_K {
  static constexpr int kUnitBytes = 3360, kBlocks = 8, kBits = 6, kOffset = 32;
  static constexpr bool kHasMin = false, kHalves = true;
  const uint8_t* unit;
  int r0;
  VecF d;
  LOCI_HD TypeQ6_K(const uint8_t* unit_, int r0_) : unit(unit_), r0(r0_), d(VecF::load_f16(halves_at(unit_) + r0_)) {}
  template <int kShift, int kG>
  LOCI_HD VecB code(int b) const {
    const uint8_t* group = unit + 288 + 384 * b;
    return nib_code<kShift, kG>(group, r0) | top_bits<4 + kShift, kG>(group + 256 + 4 * r0);
  }
  LOCI_HD VecF scale(int b, int half) const {
    const int8_t* scales = reinterpret_cast<const int8_t*>(unit + 32);
    return d * to_float(VecI::load_i8(scales + 16 * (2 * b + half) + r0));
  }
};
