// Counter-based random numbers: draw i of a stream is a function of (seed, i, stream) alone, so that a token does not
// depend on what was drawn before it, on batch mates or on a resumed run. Mixer: SplitMix64 (Steele, Lea, Flood 2014).
#pragma once
#include <cstdint>

namespace loci {

enum class RandomStream : uint64_t { kToken = 0, kXtc = 1 };

inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Uniform in [0, 1), 53 bits.
inline double uniform(uint64_t seed, uint64_t i, RandomStream stream) {
  constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ULL;
  const uint64_t key = mix64(mix64(seed + kGamma) + static_cast<uint64_t>(stream) * kGamma);
  return static_cast<double>(mix64(mix64(key + (i + 1) * kGamma) ^ seed) >> 11) * 0x1p-53;
}

}  // namespace loci
