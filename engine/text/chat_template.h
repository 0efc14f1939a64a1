// ChatTemplate: messages to prompt text, by the model's own Jinja template (engine/text/jinja/) or a built-in one.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/jinja/template.h"
#include "engine/text/tokenizer.h"

namespace loci {

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning_content;
};

struct ChatTemplateInputs {
  std::vector<ChatMessage> messages;
  // Instead of `messages`: a list of dicts with whatever fields the client sent (tool_calls, parts, name, ...).
  std::optional<jinja::Value> messages_value;
  jinja::Value tools;      // list of tool definitions; undefined: the template gets None
  jinja::Value documents;  // likewise
  bool add_generation_prompt = true;
  jinja::Variables kwargs;  // --chat-template-kwargs: more variables; they win over those made here
  std::string bos_token, eos_token;
  std::optional<bool> enable_thinking;
  std::string now;  // "2025-03-14T09:26:53" fixes strftime_now; empty: the clock
};

class ChatTemplate {
 public:
  // Parses Jinja source. Throws Error naming line and cause.
  static ChatTemplate from_source(const std::string& jinja_source);
  // A built-in by name (chatml, llama2, llama3, gemma, mistral-v7, phi3, zephyr, ...). Throws Error(kNotFound) listing
  // the names.
  static ChatTemplate builtin(const std::string& name);
  static std::vector<std::string> builtin_names();

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders to pieces: text that the template wrote may spell control tokens, text that came from the messages, tools
  // and kwargs may not (cases S018). The names of the customary roles count as the template's own, since templates
  // build control tokens from them ('<|' + role + '|>'). Adjacent pieces differ in kind.
  // Throws Error with the template's own raise_exception message or line and cause.
  std::vector<PromptPiece> render(const ChatTemplateInputs& inputs) const;
  // Renders with exactly these variables, `now` as above.
  std::vector<PromptPiece> render(const jinja::Variables& variables, const std::string& now) const;
  const std::string& source() const;

  // What the template does with a message, found by trying it out.
  // Arguments of a tool call must be an object: a JSON string would be quoted once more, or fail.
  bool wants_object_arguments() const { return wants_object_arguments_; }
  // Content must be a list of parts: a plain string is not printed.
  bool wants_content_parts() const { return wants_content_parts_; }

 private:
  explicit ChatTemplate(std::unique_ptr<jinja::Template> parsed, std::string source);
  void probe();
  std::unique_ptr<jinja::Template> parsed_;
  std::string source_;
  bool wants_object_arguments_ = false;
  bool wants_content_parts_ = false;
};

std::string join(const std::vector<PromptPiece>& pieces);

}  // namespace loci
