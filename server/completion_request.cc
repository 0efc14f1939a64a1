#include "server/completion_request.h"

#include <algorithm>

#include "kernels/check.h"
#include "server/chat_body.h"
#include "server/json.h"
#include "server/sampling_fields.h"
#include "server/speculation_fields.h"
#include "server/structured_output.h"

namespace loci::server {
namespace {

constexpr int64_t kMaxTokens = INT32_MAX;
constexpr int64_t kMaxAnswers = 128;      // n
constexpr size_t kMaxPrompts = 1024;      // in one body
constexpr int64_t kMaxTopLogprobs = 100;  // each costs a partial sort of the vocabulary
constexpr size_t kMaxStops = 256;
constexpr int64_t kMaxPriority = 1000000;
constexpr double kMaxTimeoutS = 1e6;

// The first of several names of one field that is there.
const char* first_present(const BodyFields& body, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (body.find(name) != nullptr) return name;
  }
  return nullptr;
}

std::vector<std::string> read_stops(const Json& json) {
  std::vector<std::string> stops;
  const auto add = [&stops](const Json& item) {
    if (!item.is_string()) reject_field("stop", "expected a string or a list of strings, found ", excerpt(item));
    if (!item.get_ref<const std::string&>().empty()) stops.push_back(item.get<std::string>());
  };
  if (json.is_array()) {
    if (json.size() > kMaxStops) reject_field("stop", "expected at most ", kMaxStops, " texts, found ", json.size());
    for (const Json& item : json) add(item);
  } else {
    add(json);
  }
  return stops;
}

// chat: logprobs true, with top_logprobs; text: logprobs N. n_probs N is the same as either.
void read_logprobs(const BodyFields& body, CompletionRequest& request) {
  if (const auto n = body.integer("n_probs", 0, kMaxTopLogprobs); n && *n > 0) {
    request.logprobs = true;
    request.top_logprobs = static_cast<int>(*n);
  }
  const Json* logprobs = body.find("logprobs");
  if (logprobs != nullptr && logprobs->is_boolean()) {
    request.logprobs = logprobs->get<bool>();
  } else if (const auto n = body.integer("logprobs", 0, kMaxTopLogprobs)) {
    request.logprobs = true;
    request.top_logprobs = static_cast<int>(*n);
  }
  if (const auto n = body.integer("top_logprobs", 0, kMaxTopLogprobs)) {
    if (*n > 0 && !request.logprobs) {
      fail(ErrorKind::kInvalidInput, "top_logprobs requires logprobs to be set to true");
    }
    request.top_logprobs = static_cast<int>(*n);
  }
  if (body.boolean("post_sampling_probs").value_or(false)) {
    refuse_field("post_sampling_probs", "probabilities are those before sampling");
  }
}

// Seconds, as clients of OpenAI's API state it; null is the default.
void read_timeout(const BodyFields& body, CompletionRequest& request) {
  const std::optional<double> seconds = body.number("timeout");
  if (!seconds) return;
  if (!(*seconds > 0 && *seconds <= kMaxTimeoutS)) {
    reject_field("timeout", "expected seconds above 0, at most ", static_cast<int64_t>(kMaxTimeoutS), ", found ",
                 excerpt(*body.find("timeout")));
  }
  request.timeout_ms = std::max<int64_t>(1, static_cast<int64_t>(*seconds * 1000));
}

bool is_empty(const Json& value) { return (value.is_array() || value.is_object()) && value.empty(); }

// Fields that would change the answer and cannot be honoured.
void refuse_unsupported(const BodyFields& body) {
  for (const char* name : {"functions", "lora", "audio", "suffix", "prediction"}) {
    const Json* value = body.find(name);
    if (value != nullptr && !is_empty(*value) && *value != "") refuse_field(name, "found ", excerpt(*value));
  }
  if (body.integer("t_max_predict_ms").value_or(0) > 0) refuse_field("t_max_predict_ms", "a time limit");
  if (body.integer("n_indent").value_or(0) > 0) refuse_field("n_indent", "an indentation limit");
  for (const char* name : {"thinking_budget_tokens", "reasoning_budget_tokens"}) {
    if (body.integer(name).value_or(-1) >= 0) refuse_field(name, "the length of thinking cannot be steered");
  }
}

void read_common(const BodyFields& body, const RequestDefaults& defaults, CompletionRequest& request) {
  refuse_unsupported(body);
  request.sampling = read_sampling(body, defaults.sampling, *defaults.tokenizer);
  request.max_tokens = defaults.max_tokens;
  if (const char* name = first_present(body, {"max_completion_tokens", "max_tokens", "n_predict"})) {
    request.max_tokens = *body.integer(name, -1, kMaxTokens);
  }
  request.stops = defaults.stops;
  if (const Json* stop = body.find("stop")) request.stops = read_stops(*stop);
  if (const char* name = first_present(body, {"n", "n_cmpl"})) {
    request.n = static_cast<int>(*body.integer(name, 1, kMaxAnswers));
  }
  if (request.sampling.seed > INT64_MAX - request.n) {
    reject_field("seed", "expected at most ", INT64_MAX - request.n, ", found ", request.sampling.seed);
  }
  if (const auto best_of = body.integer("best_of"); best_of && *best_of != request.n) {
    refuse_field("best_of", "expected the value of n, ", request.n, ", found ", *best_of);
  }
  request.cache_prompt = body.boolean("cache_prompt").value_or(defaults.cache_prompt);
  request.stream = body.boolean("stream").value_or(false);
  if (const Json* options = body.find("stream_options")) {
    request.include_usage = BodyFields(*options).boolean("include_usage").value_or(false);
  }
  request.return_progress = body.boolean("return_progress").value_or(false);
  request.timings_per_token = body.boolean("timings_per_token").value_or(false);
  read_logprobs(body, request);
  request.priority = static_cast<int>(body.integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
  request.timeout_ms = defaults.timeout_ms;
  read_timeout(body, request);
  request.speculation = read_speculation(body, defaults.speculation, defaults.has_draft_model);
}

void read_messages(const Json& json, const BodyFields& body, const RequestDefaults& defaults,
                   CompletionRequest& request) {
  request.dialect = defaults.dialect;
  request.tools = read_tool_request(body, defaults.dialect);
  const bool with_tools = !request.tools.tools.empty();
  request.prompts.push_back(encode_chat(*defaults.tokenizer, render_chat(json, defaults, with_tools)));
  request.split_reasoning = defaults.separate_reasoning;
  if (const auto format = body.string("reasoning_format")) {
    if (*format != "none" && *format != "auto" && *format != "deepseek" && *format != "deepseek-legacy") {
      reject_field("reasoning_format", "expected none, auto or deepseek, found '", *format, "'");
    }
    request.split_reasoning = *format != "none";
  }
}

// One prompt: a text, or a list of token ids and texts.
void add_prompt(const Json& json, const Tokenizer& tokenizer, bool echo, CompletionRequest& request) {
  PromptTokens prompt;
  std::string text;
  if (json.is_string()) {
    text = json.get<std::string>();
    prompt = encode_text(tokenizer, text);
  } else if (json.is_array()) {
    for (const Json& item : json) {
      if (item.is_string()) {
        const bool at_start = prompt.tokens.empty();
        const std::vector<int32_t> ids = at_start ? encode_text(tokenizer, item.get_ref<const std::string&>()).tokens
                                                  : tokenizer.encode(item.get_ref<const std::string&>(), false, true);
        prompt.tokens.insert(prompt.tokens.end(), ids.begin(), ids.end());
      } else if (item.is_number_integer() && item >= 0 && item < tokenizer.vocab_size()) {
        prompt.tokens.push_back(item.get<int32_t>());
      } else {
        reject_field("prompt", "expected texts and token ids from 0 to ", tokenizer.vocab_size() - 1, ", found ",
                     excerpt(item));
      }
    }
    if (echo) text = tokenizer.decode(prompt.tokens);
  } else {
    reject_field("prompt", "expected a string, a list of token ids, or a list of those, found ", excerpt(json));
  }
  if (prompt.tokens.empty()) reject_field("prompt", "expected at least one token, found an empty prompt");
  request.prompts.push_back(std::move(prompt));
  if (echo) request.echoed.push_back(std::move(text));
}

void read_prompts(const BodyFields& body, const RequestDefaults& defaults, CompletionRequest& request) {
  const Json* json = body.find("prompt");
  if (json == nullptr) fail(ErrorKind::kInvalidInput, "'prompt' is required");
  const bool echo = body.boolean("echo").value_or(false);
  request.prompt_logprobs = echo && request.logprobs;
  if (request.prompt_logprobs && request.stream) {
    refuse_field("stream", "log-probabilities of the prompt's tokens (echo with logprobs)");
  }
  // A list with a number in it is one prompt; a list of texts or lists is several.
  const bool several = json->is_array() && !json->empty() &&
                       std::all_of(json->begin(), json->end(), [](const Json& j) { return !j.is_number(); });
  if (!several) return add_prompt(*json, *defaults.tokenizer, echo, request);
  if (json->size() > kMaxPrompts) {
    reject_field("prompt", "expected at most ", kMaxPrompts, " prompts, found ", json->size());
  }
  for (const Json& prompt : *json) add_prompt(prompt, *defaults.tokenizer, echo, request);
}

// The form of the answers, compiled: behind the prompt, whose template tells whether the model thinks first.
void read_form(const BodyFields& body, const RequestDefaults& defaults, CompletionRequest& request) {
  std::optional<Grammar> form = read_structured_output(body);
  if (!form) form = defaults.form;
  if (!form) return;
  if (!request.tools.tools.empty()) {
    fail(ErrorKind::kInvalidInput, "Cannot use custom grammar constraints with tools.");
  }
  if (defaults.constraints == nullptr) fail(ErrorKind::kUnsupported, "structured output is not to be had here");
  const bool is_chat = request.endpoint == Endpoint::kChatCompletions;
  request.constraint = defaults.constraints->compile(
      *form, is_chat ? thinking_markers(request.prompts.front(), defaults.chat_template->source()) : ThinkingMarkers());
}

}  // namespace

CompletionRequest parse_completion(Endpoint endpoint, const Json& body, const RequestDefaults& defaults) {
  const BodyFields fields(body);
  CompletionRequest request;
  request.endpoint = endpoint;
  read_common(fields, defaults, request);
  if (endpoint == Endpoint::kChatCompletions) {
    read_messages(body, fields, defaults, request);
  } else {
    (void)read_tool_request(fields, nullptr);  // refuses tools
    read_prompts(fields, defaults, request);
  }
  read_form(fields, defaults, request);
  return request;
}

std::vector<PromptPiece> render_chat(const Json& body, const RequestDefaults& defaults, bool with_tools) {
  if (defaults.chat_template == nullptr) {
    fail(ErrorKind::kUnsupported,
         "the model has no chat template: it takes /v1/completions, or chat with a template chosen by --chat-template");
  }
  ChatBody chat = parse_chat_body(body, *defaults.chat_template, defaults.prefill_assistant);
  ChatTemplateInputs& inputs = chat.inputs;
  if (!with_tools) inputs.tools = {};
  jinja::Variables kwargs = defaults.template_kwargs;
  std::optional<bool> thinking = defaults.thinking;
  if (const auto effort = BodyFields(body).string("reasoning_effort")) {
    if (*effort == "none") {
      thinking = false;
    } else {
      kwargs.emplace_back("reasoning_effort", to_value(*effort, jinja::Origin::kInput, "reasoning_effort"));
    }
  }
  kwargs.insert(kwargs.end(), inputs.kwargs.begin(), inputs.kwargs.end());
  inputs.kwargs = std::move(kwargs);
  inputs.enable_thinking = thinking;
  inputs.bos_token = token_text_or_empty(*defaults.tokenizer, defaults.tokenizer->special().bos);
  inputs.eos_token = token_text_or_empty(*defaults.tokenizer, defaults.tokenizer->special().eos);
  return render(*defaults.chat_template, chat);
}

std::optional<ApiError> check_context(const CompletionRequest& request, int64_t n_ctx) {
  for (const PromptTokens& prompt : request.prompts) {
    const auto n_tokens = static_cast<int64_t>(prompt.tokens.size());
    if (n_tokens > n_ctx) return context_exceeded(n_tokens, n_ctx);
  }
  return std::nullopt;
}

Request engine_request(const CompletionRequest& request, size_t prompt, std::vector<TokenSink*> sinks) {
  LOCI_CHECK(sinks.size() == static_cast<size_t>(request.n), "expected ", request.n, " sinks, found ", sinks.size());
  Request out;
  out.prompt = request.prompts[prompt].tokens;
  out.sampling = request.sampling;
  out.max_tokens = request.max_tokens;
  out.stops = request.stops;
  if (request.logprobs) out.n_top_logprobs = std::max(1, request.top_logprobs);
  if (request.prompt_logprobs) out.n_prompt_logprobs = request.top_logprobs;
  out.wants_hidden = request.pooling != Pooling::kNone;
  out.cache_prompt = request.cache_prompt;
  out.n = request.n;
  out.priority = request.priority;
  out.timeout_ms = request.timeout_ms;
  out.speculation = request.speculation;
  out.constraint = request.constraint;
  if (request.n == 1) {
    out.sink = sinks.front();
  } else {
    out.sinks = std::move(sinks);
  }
  return out;
}

}  // namespace loci::server
