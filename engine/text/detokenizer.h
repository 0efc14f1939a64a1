// Detokenizer: a stream of token ids to a stream of whole UTF-8 characters, with stop strings.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace loci {

// Feed tokens in order; each call returns the text that can safely be shown now. Bytes of an unfinished character
// and text that may be the start of a stop string are held back. Invalid bytes become U+FFFD (one per maximal
// ill-formed subpart), as does an unfinished character at the end: what comes out is always valid UTF-8, and all of
// it together is what decode() gives for the whole list, made valid.
class Detokenizer {
 public:
  // `stops`: of several, the one that is complete first counts. One that spells a control token is also met by that
  // token itself, which shows as nothing. Empty strings and invalid UTF-8 cannot be met and are ignored.
  // `show_special`: control tokens are shown as their text (--special).
  // `continues`: the tokens go on where a text left off, so that a first space is text and not a space prefix.
  Detokenizer(const Tokenizer& tokenizer, std::vector<std::string> stops, bool show_special = false,
              bool continues = false);

  // REQUIRES: 0 <= token < vocab_size(). After a stop string: "".
  std::string add(int32_t token);
  // No more tokens: what was held back (nothing after a stop string).
  std::string finish();
  // The stop string that was met, empty if none. Text from it on is never returned.
  const std::string& stop_found() const { return stop_found_; }

 private:
  std::string take(bool at_end);
  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  bool show_special_;
  std::string bytes_;  // raw bytes not yet validated: at most one unfinished character between calls
  std::string text_;   // valid UTF-8 held back for stop strings
  std::string stop_found_;
  bool at_start_;  // Tokenizer::decode_next()
};

}  // namespace loci
