#include "main/text_input.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "kernels/error.h"

namespace loci::cli {

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail(ErrorKind::kNotFound, path, ": ", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail(ErrorKind::kInvalidInput, path, ": is a directory, expected a text file");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::kInvalidInput, path, ": ", std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string unescape(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '"':
        out += '"';
        break;
      case '\'':
        out += '\'';
        break;
      case '\\':
        out += '\\';
        break;
      default:
        out += '\\', out += text[i];
    }
  }
  return out;
}

}  // namespace loci::cli
