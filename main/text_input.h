// Reading texts: files, stdin, escapes.
#pragma once
#include <string>

namespace loci::cli {

// Reads a file, or stdin for "-". Throws Error naming the path and the reason.
std::string read_text(const std::string& path);

// Turns \n \t \r \" \' \\ into the characters they stand for (-e); other backslashes stay.
std::string unescape(const std::string& text);

}  // namespace loci::cli
