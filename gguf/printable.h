// Text from a file made safe for a message: a name in an untrusted file may hold terminal control sequences.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace loci::gguf {

// `text` with control characters, backslashes and bytes that are not valid UTF-8 as \xNN (\n, \t, \r, \\ by name).
// Longer texts are cut after max_bytes of input, marked by "...".
std::string printable(std::string_view text, size_t max_bytes = 128);
// True for valid UTF-8 without control characters.
bool is_printable(std::string_view text);

}  // namespace loci::gguf
