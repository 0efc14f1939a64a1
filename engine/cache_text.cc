#include "engine/cache_text.h"

#include <algorithm>

#include "engine/text/unicode.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr size_t kShownTokens = 8;  // on either side of the difference

// In quotes, on one line: control characters escaped, broken UTF-8 (a character cut between tokens) replaced.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const unicode::Decoded decoded = unicode::decode(text, at);
    at += decoded.length;
    if (decoded.cp == '\n') {
      out += "\\n";
    } else if (decoded.cp == '"' || decoded.cp == '\\') {
      out += '\\';
      out += static_cast<char>(decoded.cp);
    } else if (decoded.cp < 0x20 || (decoded.cp >= 0x7f && decoded.cp < 0xa0)) {
      unicode::append(out, unicode::kReplacement);
    } else {
      unicode::append(out, decoded.cp);
    }
  }
  return out + '"';
}

std::string text_of(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += tokenizer.token_bytes(token, true);
  return quoted(text);
}

}  // namespace

std::string cache_miss_text(const CacheReport& report, std::span<const int32_t> prompt, const Tokenizer& tokenizer) {
  switch (report.cause) {
    case MissCause::kNone:
    case MissCause::kEmpty:
    case MissCause::kDisabled:
      return "";
    case MissCause::kEvicted:
      return str("evicted from token ", report.n_cached, " on: its pages were needed");
    case MissCause::kOtherNamespace:
      return "cached for another model, K/V format or adapter";
    case MissCause::kDiffers:
      break;
  }
  const auto at = static_cast<size_t>(report.first_difference);
  const auto first = [](std::span<const int32_t> tokens) {
    return tokens.first(std::min(tokens.size(), kShownTokens));
  };
  const std::span<const int32_t> before = prompt.first(at);
  return str("differs at token ", at,
             before.empty() ? "" : str(", after ", text_of(tokenizer, before.last(std::min(at, kShownTokens)))),
             ": the prompt has ", text_of(tokenizer, first(prompt.subspan(at))), ", the cache ",
             text_of(tokenizer, first(report.cached_there)));
}

}  // namespace loci
