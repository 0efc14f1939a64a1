#include "server/tools/cursor.h"

#include <algorithm>

namespace loci::server {

Match skip_space(Cursor& cursor) {
  while (!cursor.empty() && is_space(cursor.text[cursor.pos])) ++cursor.pos;
  if (!cursor.empty()) return Match::kYes;
  return cursor.at_end ? Match::kNo : Match::kMore;
}

Match take(Cursor& cursor, std::string_view literal) {
  const std::string_view rest = cursor.rest().substr(0, literal.size());
  if (rest != literal.substr(0, rest.size())) return Match::kNo;
  if (rest.size() < literal.size()) return cursor.at_end ? Match::kNo : Match::kMore;
  cursor.pos += literal.size();
  return Match::kYes;
}

Match take_name(Cursor& cursor, std::string_view end, std::string& name) {
  const std::string_view rest = cursor.rest().substr(0, kMaxNameBytes + end.size());
  const size_t found = end.empty() ? rest.find_first_of(" \t\r\n<") : rest.find(end);
  const bool is_found = found != std::string_view::npos;
  const size_t n_bytes = is_found ? found : rest.size() - (end.empty() ? 0 : partial_at_end(rest, end));
  const std::string_view candidate = trimmed(rest.substr(0, n_bytes));
  if (candidate.find_first_of("\n\r\"{}") != std::string_view::npos) return Match::kNo;
  if (!is_found) return cursor.at_end || rest.size() >= kMaxNameBytes + end.size() ? Match::kNo : Match::kMore;
  if (candidate.empty()) return Match::kNo;
  name = candidate;
  cursor.pos += found + end.size();
  return Match::kYes;
}

size_t partial_at_end(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == marker.substr(0, n)) return n;
  }
  return 0;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace loci::server
