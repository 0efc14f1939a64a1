// GPT-2's byte-level alphabet: every byte has a printable stand-in character, in which vocabularies are spelled.
#pragma once
#include <cstdint>

namespace loci {

// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68 are, in order, U+0100 and up.
constexpr uint32_t printable_of_byte(uint8_t byte) {
  if (byte < 33) return 0x100u + byte;
  if (byte >= 127 && byte <= 160) return 0x100u + 33 + (byte - 127u);
  return byte == 173 ? 0x143u : byte;
}

// The inverse; -1 for characters that stand for no byte.
constexpr int byte_of_printable(uint32_t cp) {
  if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255)) return static_cast<int>(cp);
  if (cp < 0x100 || cp > 0x143) return -1;
  const int i = static_cast<int>(cp - 0x100);
  if (i < 33) return i;
  return i < 67 ? 127 + i - 33 : 173;
}

}  // namespace loci
