// Cursor: a place in a text of which more may come, and the small steps that readers of tool calls take over it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace loci::server {

struct Cursor {
  std::string_view text;
  size_t pos = 0;
  bool at_end = false;  // no more text comes

  bool empty() const { return pos >= text.size(); }
  std::string_view rest() const { return text.substr(pos); }
};

// kMore: the text so far does not tell; nothing was consumed but what the function says. Never at the text's end.
enum class Match { kYes, kNo, kMore };

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr std::string_view kSpaces = " \t\r\n";

// Consumes white space. kYes: something follows. kNo: the text has ended.
Match skip_space(Cursor& cursor);
// Consumes `literal` when the text goes on with it.
Match take(Cursor& cursor, std::string_view literal);
// Reads the name of a function or parameter and consumes `end` behind it; an empty `end` stands for white space or
// '<', which stay. kNo: it is empty, longer than kMaxNameBytes, or holds what no name does.
Match take_name(Cursor& cursor, std::string_view end, std::string& name);
constexpr size_t kMaxNameBytes = 256;

// Length of the longest proper prefix of `marker` that `text` ends with.
size_t partial_at_end(std::string_view text, std::string_view marker);
std::string_view trimmed(std::string_view text);

}  // namespace loci::server
