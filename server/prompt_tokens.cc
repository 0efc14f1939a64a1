#include "server/prompt_tokens.h"

#include "engine/text/chat_template.h"
#include "server/reasoning.h"

namespace loci::server {
namespace {

void drop_end_token(const SpecialTokens& special, std::vector<int32_t>& tokens) {
  if (special.add_eos && tokens.size() > 1 && tokens.back() == special.eos) tokens.pop_back();
}

}  // namespace

std::string token_text_or_empty(const Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

PromptTokens encode_chat(const Tokenizer& tokenizer, const std::vector<PromptPiece>& pieces) {
  const std::string text = join(pieces);
  const std::string bos = token_text_or_empty(tokenizer, tokenizer.special().bos);
  const bool has_bos = !bos.empty() && text.rfind(bos, 0) == 0;
  PromptTokens out;
  out.tokens = tokenizer.encode(pieces, !has_bos);
  drop_end_token(tokenizer.special(), out.tokens);
  out.opens_reasoning = opened_reasoning(text);
  return out;
}

PromptTokens encode_text(const Tokenizer& tokenizer, std::string_view text) {
  PromptTokens out;
  out.tokens = tokenizer.encode(text, true, true);
  drop_end_token(tokenizer.special(), out.tokens);
  return out;
}

}  // namespace loci::server
