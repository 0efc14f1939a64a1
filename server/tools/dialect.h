// Dialects: how families of models mark thinking, answer and tool calls in the text that they write.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/chat_template.h"
#include "server/tools/call_format.h"

namespace loci::server {

// Messages that begin with a header which says what they are.
enum class Headers {
  kNone,
  kChannels,    // <|start|>assistant<|channel|>analysis<|message|>..., to=functions.NAME is a call
  kRecipients,  // <|start|>assistant to=self<|message|>...
  kNames,       // >>>all\n... or >>>NAME\n{...}; the prompt ends inside the first
};

struct Dialect {
  std::string_view name;
  std::span<const CallFormat> formats = {};  // tried one after the other where several share a marker
  Headers headers = Headers::kNone;
  std::span<const std::string_view> dropped = {};  // markers that are no text and mean nothing
  int id_bytes = 0;                                // length of the ids of calls, where templates ask for one; 0: any
  // The template, or what it makes of a call, holds one of these.
  std::span<const std::string_view> signs = {};
};

// All of them; earlier ones are recognized first.
std::span<const Dialect> dialects();
// nullptr: no such name.
const Dialect* find_dialect(std::string_view name);
std::vector<std::string> dialect_names();

// The dialect that a model with this template writes in. nullptr: none is recognized, answers are plain text.
const Dialect* dialect_of(const ChatTemplate& chat_template);

// All markers of a dialect, those of thinking among them: control tokens in them must be shown as text.
std::vector<std::string_view> markers_of(const Dialect& dialect);

}  // namespace loci::server
