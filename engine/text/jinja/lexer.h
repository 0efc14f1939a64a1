// The lexer: template source to tokens, with Jinja's whitespace control as chat templates expect it: trim_blocks and
// lstrip_blocks on, one trailing newline dropped, `-` and `+` at tag borders.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace loci::jinja {

enum class TokenKind : uint8_t {
  kData,         // text between tags
  kOutputBegin,  // {{
  kOutputEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text holds it: + - * / // ** % ~ == != < <= > >= = . , : | ; ( ) [ ] { }
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  // data, name, unescaped string or operator
  int64_t integer = 0;
  double number = 0;
  int line = 1;
};

// Throws Error(kInvalidInput) naming line and cause.
std::vector<Token> tokenize(const std::string& source);

// Throws Error(kInvalidInput, "chat template line N: cause").
[[noreturn]] void fail_at(int line, const std::string& cause);

}  // namespace loci::jinja
