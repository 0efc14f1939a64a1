// Prompt text to the tokens that a request starts from.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace loci::server {

struct PromptTokens {
  std::vector<int32_t> tokens;
  std::string opens_reasoning;  // the marker (<think>) that the template ends with: the answer starts inside
};

// What a chat template rendered. A template that spells the begin token itself gets no second one.
PromptTokens encode_chat(const Tokenizer& tokenizer, const std::vector<PromptPiece>& pieces);

// A text to be continued: control tokens spelled in it count. Never ends with an end token, whatever the vocabulary
// asks for texts.
PromptTokens encode_text(const Tokenizer& tokenizer, std::string_view text);

// Spelling of a special token, empty for -1: bos_token and eos_token of chat templates.
std::string token_text_or_empty(const Tokenizer& tokenizer, int32_t id);

}  // namespace loci::server
