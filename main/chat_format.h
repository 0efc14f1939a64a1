// ChatFormat: messages to prompt tokens, by the model's chat template, a chosen one, or none (raw completion).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/text/chat_template.h"
#include "main/options.h"
#include "server/prompt_tokens.h"

namespace loci::cli {

using server::PromptTokens;

class ChatFormat {
 public:
  // Picks the template: --chat-template, else the model's, else (with -cnv) chatml. Without any, or with -no-cnv:
  // raw completion. Throws Error when the template does not parse.
  ChatFormat(const Engine& engine, const ChatOptions& options);

  bool raw() const { return !template_; }
  const ChatTemplate* chat_template() const { return template_ ? &*template_ : nullptr; }
  const std::string& template_name() const { return name_; }  // "of the model", "chatml", "none: ..."

  // The prompt for the next answer. Raw: the contents, one after the other, control tokens spelled in them parsed.
  PromptTokens prompt(const std::vector<ChatMessage>& messages, std::optional<bool> thinking) const;

  // The form of the answer to a prompt, compiled: a model that thinks may do so first.
  std::shared_ptr<const Constraint> compile(const Grammar& form, Engine& engine, const PromptTokens& prompt) const;

 private:
  const Engine* engine_;
  std::optional<ChatTemplate> template_;
  std::string name_;
  std::string kwargs_json_;
};

// "     1 -> 'Hello'" for each token, without a last newline.
std::string describe_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens);

}  // namespace loci::cli
