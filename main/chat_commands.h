// The slash commands of loci chat.
#pragma once
#include <string>
#include <vector>

#include "main/chat_session.h"
#include "main/message_reader.h"

namespace loci::cli {

enum class CommandOutcome { kGoOn, kLeave, kAnswered };

// Runs "/name arguments". kAnswered: `answer` holds a new answer (/regen). Throws Error on bad use; nothing has changed
// then. What a command says goes to stderr.
CommandOutcome run_chat_command(const std::string& line, ChatSession& session, MessageReader& reader,
                                const Console& console, Answer& answer);

// "/help", "/exit", ... for completion.
std::vector<std::string> chat_command_names();

}  // namespace loci::cli
