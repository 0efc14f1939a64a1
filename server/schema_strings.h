// The formats of JSON schemas that strings are held to.
#pragma once
#include <string>
#include <string_view>

namespace loci::server {

// An anchored regular expression for a format; empty when the format is not known. What it allows is valid in every
// reading of the format, and may leave out rare spellings (leap days, quoted e-mail addresses).
std::string format_pattern(std::string_view format);
std::string known_formats();  // "date, time, ..."

}  // namespace loci::server
