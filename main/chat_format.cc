#include "main/chat_format.h"

#include <cstdio>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/console.h"
#include "main/json_value.h"
#include "main/reasoning.h"

namespace loci::cli {
namespace {

std::string text_or_empty(const Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

// A prompt for generation never ends with the end token, whatever the vocabulary asks for texts.
void drop_end_token(const SpecialTokens& special, std::vector<int32_t>& tokens) {
  if (special.add_eos && tokens.size() > 1 && tokens.back() == special.eos) tokens.pop_back();
}

}  // namespace

ChatFormat::ChatFormat(const Engine& engine, const ChatOptions& options)
    : engine_(&engine), kwargs_json_(options.template_kwargs) {
  if (options.conversation == false) {
    name_ = "none (raw completion)";
  } else if (options.chat_template) {
    const bool source = options.chat_template->find('{') != std::string::npos;
    template_ =
        source ? ChatTemplate::from_source(*options.chat_template) : ChatTemplate::builtin(*options.chat_template);
    name_ = source ? "given" : *options.chat_template;
  } else if (!engine.info().chat_template.empty()) {
    try {
      template_ = ChatTemplate::from_source(engine.info().chat_template);
    } catch (const Error& error) {
      fail(error.kind(), engine.info().path, ": tokenizer.chat_template: ", error.what(),
           "; --chat-template NAME chooses another, -no-cnv goes without");
    }
    name_ = "the model's";
  } else if (options.conversation == true) {
    log_warn(engine.info().path, ": the model has no chat template; chatml is used as -cnv asks for one");
    template_ = ChatTemplate::builtin("chatml");
    name_ = "chatml";
  } else {
    name_ = "none (raw completion)";
    log_info("note: the model has no chat template: it continues the text (raw completion)");
  }
}

PromptTokens ChatFormat::prompt(const std::vector<ChatMessage>& messages, std::optional<bool> thinking) const {
  const Tokenizer& tokenizer = engine_->tokenizer();
  PromptTokens out;
  if (raw()) {
    std::string text;
    for (const ChatMessage& message : messages) text += message.content;
    out.tokens = tokenizer.encode(text, true, true);
    drop_end_token(tokenizer.special(), out.tokens);
    return out;
  }
  ChatTemplateInputs inputs;
  inputs.messages = messages;
  inputs.kwargs = to_variables(kwargs_json_, "--chat-template-kwargs");
  inputs.bos_token = text_or_empty(tokenizer, tokenizer.special().bos);
  inputs.eos_token = text_or_empty(tokenizer, tokenizer.special().eos);
  inputs.enable_thinking = thinking;
  const std::vector<PromptPiece> pieces = template_->render(inputs);
  const std::string text = join(pieces);
  // Templates that spell the begin token themselves must not get a second one.
  const bool has_bos = !inputs.bos_token.empty() && text.rfind(inputs.bos_token, 0) == 0;
  out.tokens = tokenizer.encode(pieces, !has_bos);
  drop_end_token(tokenizer.special(), out.tokens);
  out.opens_reasoning = !opened_reasoning(text).empty();
  return out;
}

std::string describe_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  std::string out = "prompt: " + std::to_string(tokens.size()) + " tokens\n";
  for (const int32_t token : tokens) {
    char id[16];
    std::snprintf(id, sizeof id, "%6d", token);
    out += std::string(id) + " -> '" + visible_controls(tokenizer.token_bytes(token, true)) + "'\n";
  }
  out.pop_back();
  return out;
}

}  // namespace loci::cli
