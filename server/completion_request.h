// CompletionRequest: the body of POST /v1/chat/completions or /v1/completions, checked and tokenized, ready to become
// requests of the engine.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/api_error.h"
#include "server/body_fields.h"
#include "server/pooling.h"
#include "server/prompt_tokens.h"
#include "server/tools/tool_request.h"

namespace loci::server {

enum class Endpoint { kChatCompletions, kCompletions };

// What bodies are read against: the model, and values for what they leave out.
struct RequestDefaults {
  const Tokenizer* tokenizer = nullptr;         // not owned
  const ChatTemplate* chat_template = nullptr;  // not owned; nullptr: chat requests are refused
  const Dialect* dialect = nullptr;             // of the model's tool calls and thinking; nullptr: tools are refused
  int64_t n_ctx = 0;
  SamplingParams sampling;
  int64_t max_tokens = -1;
  std::vector<std::string> stops;    // a body's own replace them
  jinja::Variables template_kwargs;  // a body's own go before them
  std::optional<bool> thinking;      // enable_thinking of the template
  bool separate_reasoning = true;    // reasoning_content apart from content
  int64_t timeout_ms = -1;           // for a whole answer; -1: none
  bool cache_prompt = true;
  bool prefill_assistant = true;  // go on with a final assistant message
  Speculation speculation;
  bool has_draft_model = false;
  ConstraintCompiler* constraints = nullptr;  // not owned; nullptr: bodies that ask for a form are refused
  std::optional<Grammar> form;                // of answers whose bodies ask for none
};

struct CompletionRequest {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::vector<PromptTokens> prompts;  // one for chat
  std::vector<std::string> echoed;    // text of each prompt when the answer repeats it, else empty
  int n = 1;                          // answers for each prompt
  SamplingParams sampling;
  int64_t max_tokens = -1;
  std::vector<std::string> stops;
  bool cache_prompt = true;
  bool logprobs = false;
  int top_logprobs = 0;
  bool prompt_logprobs = false;      // of the prompt's tokens too: echo with logprobs
  Pooling pooling = Pooling::kNone;  // for an embedding
  bool split_reasoning = false;
  const Dialect* dialect = nullptr;  // chat: RequestDefaults::dialect
  ToolRequest tools;                 // chat
  bool stream = false, include_usage = false;
  bool return_progress = false;    // of the prompt, in a stream
  bool timings_per_token = false;  // in a stream
  int priority = 0;                // higher goes first
  int64_t timeout_ms = -1;         // for the whole answer; -1: none
  Speculation speculation;
  std::shared_ptr<const Constraint> constraint;  // the form of the answer, if it has one

  // Choice i is answer i % n to prompt i / n.
  size_t n_choices() const { return prompts.size() * static_cast<size_t>(n); }
};

// Throws Error that names the field: kInvalidInput, or kUnsupported for what is understood but cannot be done.
CompletionRequest parse_completion(Endpoint endpoint, const Json& body, const RequestDefaults& defaults);

// The prompt of a chat body, by the template of `defaults`, with its thinking switched as body and defaults say.
// Throws Error. `with_tools`: the body's tool definitions are shown to the model.
std::vector<PromptPiece> render_chat(const Json& body, const RequestDefaults& defaults, bool with_tools);

// Set when a prompt does not fit the context.
std::optional<ApiError> check_context(const CompletionRequest& request, int64_t n_ctx);

// The engine's request for a prompt and all its answers. `sinks`: n of them.
Request engine_request(const CompletionRequest& request, size_t prompt, std::vector<TokenSink*> sinks);

}  // namespace loci::server
