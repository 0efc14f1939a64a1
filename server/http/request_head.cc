#include "server/http/request_head.h"

#include <algorithm>

namespace loci::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

bool equal_fold(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view strip_blanks(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

RequestHead::RequestHead(std::string bytes) : bytes_(std::move(bytes)) {
  std::string_view rest = bytes_;
  const std::string_view line = take_line(rest);
  const size_t space = std::min(line.find(' '), line.size());
  method_ = line.substr(0, space);
  std::string_view target = line.substr(std::min(space + 1, line.size()));
  path_ = target.substr(0, target.find_first_of(" ?#"));
}

template <typename Visit>
void RequestHead::for_each_header(const Visit& visit) const {
  std::string_view rest = bytes_;
  take_line(rest);
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) visit(line.substr(0, colon), strip_blanks(line.substr(colon + 1)));
  }
}

std::optional<std::string_view> RequestHead::header(std::string_view name) const {
  std::optional<std::string_view> found;
  for_each_header([&](std::string_view key, std::string_view value) {
    if (!found && equal_fold(key, name)) found = value;
  });
  return found;
}

int RequestHead::count(std::string_view name) const {
  int n = 0;
  for_each_header([&](std::string_view key, std::string_view) { n += equal_fold(key, name) ? 1 : 0; });
  return n;
}

}  // namespace loci::server
