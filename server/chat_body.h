// The body of a chat request (messages, tools, ...) to the inputs of a chat template.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/text/chat_template.h"

namespace loci::server {

struct ChatBody {
  ChatTemplateInputs inputs;
  std::string prefill;  // text of a final assistant message, which the answer goes on with
};

// Checks and brings the messages into the form that `chat_template` expects: developer becomes system, null content
// becomes "", text parts are joined (or a text made a part), arguments of tool calls are parsed or left as text.
// `may_prefill`: a final assistant message is to be continued, unless the body says add_generation_prompt: false or
// continue_final_message: false. Throws Error(kInvalidInput) naming field and message index.
ChatBody parse_chat_body(const nlohmann::ordered_json& body, const ChatTemplate& chat_template, bool may_prefill);

// The prompt: the template's pieces, then the prefill.
std::vector<PromptPiece> render(const ChatTemplate& chat_template, const ChatBody& body);

}  // namespace loci::server
