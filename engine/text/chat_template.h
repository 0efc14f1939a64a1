// ChatTemplate: messages to prompt text, by the model's own Jinja template (engine/text/jinja/) or a built-in one.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"

namespace loci {

// A JSON-like value for template variables; see engine/text/jinja/value.h.
namespace jinja {
class Value;
class Template;
}  // namespace jinja

struct ChatMessage {
  std::string role;     // system, user, assistant, tool
  std::string content;
  std::string reasoning_content;
};

struct ChatTemplateInputs {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  std::string kwargs_json;  // --chat-template-kwargs: a JSON object of extra variables, or empty
  std::string bos_token, eos_token;
  std::optional<bool> enable_thinking;
  std::string now;          // "2025-03-14T09:26:53" fixes strftime_now; empty: the clock
};

class ChatTemplate {
 public:
  // Parses Jinja source. Throws Error naming line and cause.
  static ChatTemplate from_source(const std::string& jinja_source);
  // A built-in by name (chatml, llama2, llama3, gemma, mistral-v7, phi3, zephyr, ...). Throws Error(kNotFound) listing the names.
  static ChatTemplate builtin(const std::string& name);
  static std::vector<std::string> builtin_names();

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders to pieces: text that the template wrote may spell control tokens, text that came from the messages
  // may not (cases S018). Throws Error with the template's own raise_exception message or line and cause.
  std::vector<PromptPiece> render(const ChatTemplateInputs& inputs) const;
  const std::string& source() const;

 private:
  explicit ChatTemplate(std::unique_ptr<jinja::Template> parsed, std::string source);
  std::unique_ptr<jinja::Template> parsed_;
  std::string source_;
};

std::string join(const std::vector<PromptPiece>& pieces);

}  // namespace loci
