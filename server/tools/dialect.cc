#include "server/tools/dialect.h"

#include <algorithm>

#include "kernels/error.h"
#include "server/reasoning.h"

namespace loci::server {
namespace {

// Alternatives within <tool_call>: models trained on one of them fall into another now and then.
constexpr CallFormat kHermes{.open = "<tool_call>", .close = "</tool_call>"};
constexpr CallFormat kQwenCoder{.body = CallBody::kParameters,
                                .open = "<tool_call>",
                                .close = "</tool_call>",
                                .call_open = "<function=",
                                .call_close = "</function>",
                                .open_is_optional = true,
                                .name_end = ">",
                                .param_open = "<parameter=",
                                .key_end = ">",
                                .value_close = "</parameter>",
                                .drops_line_breaks = true};
constexpr CallFormat kGlm{.body = CallBody::kParameters,
                          .open = "<tool_call>",
                          .call_close = "</tool_call>",
                          .param_open = "<arg_key>",
                          .key_end = "</arg_key>",
                          .value_open = "<arg_value>",
                          .value_close = "</arg_value>"};
constexpr CallFormat kHermesFormats[] = {kHermes, kQwenCoder};
constexpr CallFormat kQwenCoderFormats[] = {kQwenCoder, kHermes};
constexpr CallFormat kGlmFormats[] = {kGlm, kHermes, kQwenCoder};

constexpr CallFormat kSeedFormats[] = {{.body = CallBody::kParameters,
                                        .open = "<seed:tool_call>",
                                        .close = "</seed:tool_call>",
                                        .call_open = "<function=",
                                        .call_close = "</function>",
                                        .name_end = ">",
                                        .param_open = "<parameter=",
                                        .key_end = ">",
                                        .value_close = "</parameter>",
                                        .drops_line_breaks = true}};
constexpr CallFormat kHunyuanFormats[] = {{.body = CallBody::kParameters,
                                           .open = "<tool_calls:opensource>",
                                           .close = "</tool_calls:opensource>",
                                           .call_open = "<tool_call:opensource>",
                                           .call_close = "</tool_call:opensource>",
                                           .open_is_optional = true,
                                           .name_end = "<tool_sep:opensource>",
                                           .param_open = "<arg_key:opensource>",
                                           .key_end = "</arg_key:opensource>",
                                           .value_open = "<arg_value:opensource>",
                                           .value_close = "</arg_value:opensource>"}};
constexpr CallFormat kMiniMaxM2Formats[] = {{.body = CallBody::kParameters,
                                             .open = "<minimax:tool_call>",
                                             .close = "</minimax:tool_call>",
                                             .call_open = "<invoke name=\"",
                                             .call_close = "</invoke>",
                                             .name_end = "\"",
                                             .param_open = "<parameter name=\"",
                                             .key_end = "\"",
                                             .attributes_end = ">",
                                             .value_close = "</parameter>"}};
constexpr CallFormat kMuseFormats[] = {{.body = CallBody::kParameters,
                                        .open = "<atem:function_calls>",
                                        .close = "</atem:function_calls>",
                                        .call_open = "<atem:invoke name=\"",
                                        .call_close = "</atem:invoke>",
                                        .name_end = "\"",
                                        .param_open = "<atem:parameter name=\"",
                                        .key_end = "\"",
                                        .attributes_end = ">",
                                        .value_close = "</atem:parameter>"}};
constexpr CallFormat dsml(std::string_view open, std::string_view close) {
  return {.body = CallBody::kParameters,
          .open = open,
          .close = close,
          .call_open = "<｜DSML｜invoke name=\"",
          .call_close = "</｜DSML｜invoke>",
          .name_end = "\"",
          .param_open = "<｜DSML｜parameter name=\"",
          .key_end = "\"",
          .attributes_end = ">",
          .value_close = "</｜DSML｜parameter>"};
}
constexpr CallFormat kDsmlFormats[] = {dsml("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
                                       dsml("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>")};
constexpr CallFormat kMiniCpmFormats[] = {{.body = CallBody::kParameters,
                                           .call_open = "<function name=\"",
                                           .call_close = "</function>",
                                           .name_end = "\"",
                                           .param_open = "<param name=\"",
                                           .key_end = "\"",
                                           .attributes_end = ">",
                                           .value_close = "</param>"}};
constexpr CallFormat kKimiK3Formats[] = {{.body = CallBody::kParameters,
                                          .open = "<|open|>tools<|sep|>",
                                          .close = "<|close|>tools<|sep|>",
                                          .call_open = "<|open|>call tool=\"",
                                          .call_close = "<|close|>call<|sep|>",
                                          .open_is_optional = true,
                                          .name_end = "\"",
                                          .param_open = "<|open|>argument key=\"",
                                          .key_end = "\"",
                                          .attributes_end = "<|sep|>",
                                          .value_close = "<|close|>argument<|sep|>"}};

constexpr CallFormat kDeepSeekFormats[] = {{.body = CallBody::kNamedObject,
                                            .open = "<｜tool▁calls▁begin｜>",
                                            .close = "<｜tool▁calls▁end｜>",
                                            .call_open = "<｜tool▁call▁begin｜>",
                                            .call_close = "<｜tool▁call▁end｜>",
                                            .open_is_optional = true,
                                            .name_end = "<｜tool▁sep｜>",
                                            .second_name_end = "\n"}};
constexpr CallFormat kKimiK2Formats[] = {{.body = CallBody::kNamedObject,
                                          .open = "<|tool_calls_section_begin|>",
                                          .close = "<|tool_calls_section_end|>",
                                          .call_open = "<|tool_call_begin|>",
                                          .call_close = "<|tool_call_end|>",
                                          .open_is_optional = true,
                                          .name_end = "<|tool_call_argument_begin|>"}};
constexpr CallFormat kMistralFormats[] = {
    {.body = CallBody::kNamedObject, .call_open = "[TOOL_CALLS]", .name_end = "[ARGS]"},
    {.open = "[TOOL_CALLS]", .id_may_follow = true}};
constexpr CallFormat kFunctionTagFormats[] = {
    {.body = CallBody::kNamedObject, .call_open = "<function=", .call_close = "</function>", .name_end = ">"},
    {.open = "<|python_tag|>"}};

constexpr CallFormat kLlama3Formats[] = {
    {.open = "<|python_tag|>"}, {.body = CallBody::kPython, .open = "<|python_tag|>"}, {.open = "{", .is_bare = true}};
constexpr CallFormat kNemotronFormats[] = {{.open = "<TOOLCALL>", .close = "</TOOLCALL>"}};
constexpr CallFormat kToolCallsFormats[] = {{.open = "<tool_calls>", .close = "</tool_calls>", .id_may_follow = true}};
constexpr CallFormat kCohereFormats[] = {{.open = "<|START_ACTION|>", .close = "<|END_ACTION|>"}};
constexpr CallFormat kApertusFormats[] = {
    {.open = "<|tools_prefix|>", .close = "<|tools_suffix|>", .name_is_key = true}};
constexpr CallFormat kFirefunctionFormats[] = {{.open = " functools"}, {.open = "functools"}};
constexpr CallFormat kGigaChatFormats[] = {{.open = "<|function_call|>"}, {.open = "function call<|role_sep|>"}};
constexpr CallFormat kLfm2Formats[] = {
    {.body = CallBody::kPython, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"},
    {.open = "<|tool_call_start|>", .close = "<|tool_call_end|>"}};
constexpr CallFormat kGemma4Formats[] = {
    {.body = CallBody::kBraces, .open = "<|tool_call>", .close = "<tool_call|>", .quote = "<|\"|>"}};
constexpr CallFormat kFunctionGemmaFormats[] = {
    {.body = CallBody::kBraces, .open = "<start_function_call>", .close = "<end_function_call>", .quote = "<escape>"}};

constexpr std::string_view kChannelEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
constexpr std::string_view kRecipientEnds[] = {"<|eom|>", "<|eot|>"};
constexpr std::string_view kCohereTags[] = {"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"};
constexpr std::string_view kKimiK3Tags[] = {"<|open|>response<|sep|>", "<|close|>response<|sep|>",
                                            "<|close|>message<|sep|>", "<|close|>tools<|sep|>", "<|end_of_msg|>"};

constexpr std::string_view kGptOssSigns[] = {"<|channel|>analysis", "<|channel|>commentary", "<|channel|>final"};
constexpr std::string_view kMuseSigns[] = {"<atem:function_calls>"};
constexpr std::string_view kDsmlSigns[] = {"｜DSML｜"};
constexpr std::string_view kDeepSeekSigns[] = {"<｜tool▁calls▁begin｜>"};
constexpr std::string_view kKimiK2Signs[] = {"<|tool_calls_section_begin|>"};
constexpr std::string_view kKimiK3Signs[] = {"<|open|>call tool=\""};
constexpr std::string_view kMiniMaxM2Signs[] = {"<minimax:tool_call>"};
constexpr std::string_view kHunyuanSigns[] = {"<tool_call:opensource>"};
constexpr std::string_view kSeedSigns[] = {"<seed:tool_call>"};
constexpr std::string_view kLfm2Signs[] = {"<|tool_call_start|>", "<|tool_list_start|>"};
constexpr std::string_view kGemma4Signs[] = {"<|tool_call>"};
constexpr std::string_view kFunctionGemmaSigns[] = {"<start_function_call>"};
constexpr std::string_view kCohereSigns[] = {"<|START_ACTION|>"};
constexpr std::string_view kApertusSigns[] = {"<|tools_prefix|>"};
constexpr std::string_view kMistralSigns[] = {"[TOOL_CALLS]"};
constexpr std::string_view kNemotronSigns[] = {"<TOOLCALL>"};
constexpr std::string_view kToolCallsSigns[] = {"<tool_calls>"};
constexpr std::string_view kFirefunctionSigns[] = {"functools["};
constexpr std::string_view kNamesSigns[] = {">>>all"};
constexpr std::string_view kMiniCpmSigns[] = {"<function name=\""};
constexpr std::string_view kGigaChatSigns[] = {"<|function_call|>", "function call<|role_sep|>"};
constexpr std::string_view kGlmSigns[] = {"<arg_key>"};
constexpr std::string_view kQwenCoderSigns[] = {"<tool_call>\n<function=", "<tool_call>\\n<function="};
constexpr std::string_view kHermesSigns[] = {"<tool_call>"};
constexpr std::string_view kFunctionTagSigns[] = {"<function="};
constexpr std::string_view kLlama3Signs[] = {"<|python_tag|>", "Environment: ipython"};

// What stands first in this list is recognized first.
constexpr Dialect kDialects[] = {
    {.name = "gpt-oss", .headers = Headers::kChannels, .dropped = kChannelEnds, .signs = kGptOssSigns},
    {.name = "muse",
     .formats = kMuseFormats,
     .headers = Headers::kRecipients,
     .dropped = kRecipientEnds,
     .signs = kMuseSigns},
    {.name = "deepseek-v3.2", .formats = kDsmlFormats, .signs = kDsmlSigns},
    {.name = "deepseek", .formats = kDeepSeekFormats, .signs = kDeepSeekSigns},
    {.name = "kimi-k2", .formats = kKimiK2Formats, .signs = kKimiK2Signs},
    {.name = "kimi-k3", .formats = kKimiK3Formats, .dropped = kKimiK3Tags, .signs = kKimiK3Signs},
    {.name = "minimax-m2", .formats = kMiniMaxM2Formats, .signs = kMiniMaxM2Signs},
    {.name = "hunyuan", .formats = kHunyuanFormats, .signs = kHunyuanSigns},
    {.name = "seed-oss", .formats = kSeedFormats, .signs = kSeedSigns},
    {.name = "lfm2", .formats = kLfm2Formats, .signs = kLfm2Signs},
    {.name = "gemma4", .formats = kGemma4Formats, .signs = kGemma4Signs},
    {.name = "functiongemma", .formats = kFunctionGemmaFormats, .signs = kFunctionGemmaSigns},
    {.name = "cohere", .formats = kCohereFormats, .dropped = kCohereTags, .signs = kCohereSigns},
    {.name = "apertus", .formats = kApertusFormats, .signs = kApertusSigns},
    {.name = "mistral", .formats = kMistralFormats, .id_bytes = 9, .signs = kMistralSigns},
    {.name = "nemotron", .formats = kNemotronFormats, .signs = kNemotronSigns},
    {.name = "tool-calls", .formats = kToolCallsFormats, .signs = kToolCallsSigns},
    {.name = "firefunction", .formats = kFirefunctionFormats, .signs = kFirefunctionSigns},
    {.name = "functionary-v3.2", .headers = Headers::kNames, .signs = kNamesSigns},
    {.name = "minicpm", .formats = kMiniCpmFormats, .signs = kMiniCpmSigns},
    {.name = "gigachat", .formats = kGigaChatFormats, .signs = kGigaChatSigns},
    {.name = "glm", .formats = kGlmFormats, .signs = kGlmSigns},
    {.name = "qwen3-coder", .formats = kQwenCoderFormats, .signs = kQwenCoderSigns},
    {.name = "hermes", .formats = kHermesFormats, .signs = kHermesSigns},
    {.name = "functionary-v3.1", .formats = kFunctionTagFormats, .signs = kFunctionTagSigns},
    {.name = "llama3", .formats = kLlama3Formats, .signs = kLlama3Signs},
};

// What the template makes of an assistant's call; empty when it fails.
std::string rendered_call(const ChatTemplate& chat_template) {
  using jinja::Value;
  const auto dict = [](std::initializer_list<std::pair<const char*, Value>> fields) {
    std::vector<std::pair<Value, Value>> pairs;
    for (const auto& [name, value] : fields) pairs.emplace_back(Value::string(name), value);
    return Value::dict(std::move(pairs));
  };
  const auto content = [&](const char* text) {
    if (!chat_template.wants_content_parts()) return Value::string(text);
    return Value::sequence({dict({{"type", Value::string("text")}, {"text", Value::string(text)}})});
  };
  const Value arguments = chat_template.wants_object_arguments() ? dict({{"key", Value::string("value")}})
                                                                 : Value::string("{\"key\": \"value\"}");
  const Value function = dict({{"name", Value::string("tool")}, {"arguments", arguments}});
  const Value call =
      dict({{"id", Value::string("call00001")}, {"type", Value::string("function")}, {"function", function}});
  const Value user = dict({{"role", Value::string("user")}, {"content", content("text")}});
  const Value assistant =
      dict({{"role", Value::string("assistant")}, {"content", content("")}, {"tool_calls", Value::sequence({call})}});
  ChatTemplateInputs inputs;
  inputs.messages_value = Value::sequence({user, assistant});
  inputs.add_generation_prompt = false;
  inputs.now = "2000-01-01T00:00:00";
  try {
    return join(chat_template.render(inputs));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::span<const Dialect> dialects() { return kDialects; }

const Dialect* find_dialect(std::string_view name) {
  const auto* found = std::find_if(std::begin(kDialects), std::end(kDialects),
                                   [&](const Dialect& dialect) { return dialect.name == name; });
  return found == std::end(kDialects) ? nullptr : found;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : kDialects) names.emplace_back(dialect.name);
  return names;
}

const Dialect* dialect_of(const ChatTemplate& chat_template) {
  const std::string text = chat_template.source() + "\n" + rendered_call(chat_template);
  for (const Dialect& dialect : kDialects) {
    for (const std::string_view sign : dialect.signs) {
      if (text.find(sign) != std::string::npos) return &dialect;
    }
  }
  return nullptr;
}

std::vector<std::string_view> markers_of(const Dialect& dialect) {
  std::vector<std::string_view> markers = reasoning_markers();
  for (const CallFormat& format : dialect.formats) {
    for (const std::string_view marker :
         {format.open, format.close, format.call_open, format.call_close, format.name_end, format.param_open,
          format.key_end, format.attributes_end, format.value_open, format.value_close, format.quote}) {
      if (!marker.empty()) markers.push_back(marker);
    }
  }
  if (dialect.name == "mistral") markers.push_back("[CALL_ID]");
  markers.insert(markers.end(), dialect.dropped.begin(), dialect.dropped.end());
  if (dialect.headers == Headers::kChannels || dialect.headers == Headers::kRecipients) {
    for (const std::string_view marker : {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"}) {
      markers.push_back(marker);
    }
  }
  return markers;
}

}  // namespace loci::server
