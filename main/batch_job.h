// BatchJob: one line of a batch's input, read, numbered, checked and turned into requests.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "main/batch_input.h"
#include "server/completion_request.h"

namespace loci::cli {

enum class BatchFormat {
  kAuto,   // by the first line: JSON when it begins with {
  kJsonl,  // a JSON object a line
  kText,   // a prompt a line
};

// What can be told of a line before its request is looked at: enough to know whether it is done already.
struct BatchLine {
  std::string custom_id;  // the line's own, or "request-7-1f2e3d4c" from its place and content
  bool has_own_id = false;
  server::Endpoint endpoint = server::Endpoint::kChatCompletions;
  server::Json body;
  std::optional<server::ApiError> error;  // the line cannot be run
  std::string error_code;                 // for "error": {"code"}
};

// Reads a line of JSON: a request of an OpenAI batch file (custom_id, method, url, body), or a bare body with "prompt"
// or "messages" and perhaps a custom_id. Never throws for what a line holds.
BatchLine read_json_line(const InputLine& input);

// A plain prompt: a user's message after the system message when `is_chat`, else a text to be continued.
BatchLine read_text_line(const InputLine& input, bool is_chat, const std::optional<std::string>& system);

struct BatchJob {
  std::string custom_id, request_id;
  server::CompletionRequest request;
  // Order of the prompts' tokens: neighbours share the longest beginnings.
  const std::vector<int32_t>& tokens() const { return request.prompts.front().tokens; }
  int64_t n_bytes() const;  // memory, about
};

// The output line of a failure.
std::string failure_line(const std::string& custom_id, const std::string& request_id, const server::ApiError& error,
                         const std::string& code);
// The output line of an answer; `body` is the response's.
std::string success_line(const std::string& custom_id, const std::string& request_id, server::Json body);

}  // namespace loci::cli
