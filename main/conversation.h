// Conversation: what a chat consists of, and its file (/save, /load): versioned JSON.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/chat_template.h"
#include "main/options.h"

namespace loci::cli {

// Invariant: messages alternate user, assistant, user, ...; between turns the last one is an assistant's.
struct Conversation {
  std::optional<std::string> system;
  std::vector<ChatMessage> messages;
  SamplingOptions sampling;
  int64_t n_predict = -1;
  std::optional<bool> thinking;

  // System message (if any) and messages, as a template takes them.
  std::vector<ChatMessage> prompt_messages() const;
};

// The conversation as JSON. Invalid UTF-8 (a message read from a binary file) becomes U+FFFD.
std::string conversation_text(const Conversation& conversation, const std::string& model);
// Reads such a text. `path` names its file in the Error that is thrown with the place and what was expected. `model`:
// the model it was held with.
Conversation parse_conversation(const std::string& text, const std::string& path, std::string& model);

// Writes the conversation; the file is replaced whole or not at all. Throws Error naming path and reason.
void save_conversation(const Conversation& conversation, const std::string& model, const std::string& path);

// Reads one, as parse_conversation does.
Conversation load_conversation(const std::string& path, std::string& model);

}  // namespace loci::cli
