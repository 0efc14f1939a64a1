#include "main/chat_format.h"

#include <cstdio>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/console.h"
#include "server/json.h"
#include "server/structured_output.h"

namespace loci::cli {

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
  if (raw()) {
    std::string text;
    for (const ChatMessage& message : messages) text += message.content;
    return server::encode_text(tokenizer, text);
  }
  ChatTemplateInputs inputs;
  inputs.messages = messages;
  inputs.kwargs = server::to_variables(kwargs_json_, "--chat-template-kwargs");
  inputs.bos_token = server::token_text_or_empty(tokenizer, tokenizer.special().bos);
  inputs.eos_token = server::token_text_or_empty(tokenizer, tokenizer.special().eos);
  inputs.enable_thinking = thinking;
  return server::encode_chat(tokenizer, template_->render(inputs));
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

std::shared_ptr<const Constraint> ChatFormat::compile(const Grammar& form, Engine& engine,
                                                      const PromptTokens& prompt) const {
  return engine.constraints().compile(
      form, template_ ? server::thinking_markers(prompt, template_->source()) : ThinkingMarkers());
}

}  // namespace loci::cli
