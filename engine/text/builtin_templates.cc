#include "engine/text/builtin_templates.h"

namespace loci {
namespace {

struct Entry {
  const char* name;
  const char* source;
};

constexpr const char* kChatml = R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%})";

constexpr const char* kLlama2 = R"({%- set ns = namespace(system='', first=true) -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = '<<SYS>>\n' + (message.content | trim) + '\n<</SYS>>\n\n' -%}
{%- elif message.role == 'assistant' -%}
{{- ' ' + (message.content | trim) + ' </s>' -}}
{%- else -%}
{{- ('' if ns.first else '<s>') + '[INST] ' + ns.system + (message.content | trim) + ' [/INST]' -}}
{%- set ns.system = '' -%}
{%- set ns.first = false -%}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kLlama3 = R"({%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + (message.content | trim) + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%})";

constexpr const char* kLlama4 = R"({%- for message in messages -%}
{{- '<|header_start|>' + message.role + '<|header_end|>\n\n' + (message.content | trim) + '<|eot|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|header_start|>assistant<|header_end|>\n\n' -}}{%- endif -%})";

// The system message opens the turn of the user who speaks next.
constexpr const char* kMistralV1 = R"({%- set ns = namespace(open=false) -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- ' ' + message.content + '</s>' -}}
{%- set ns.open = false -%}
{%- else -%}
{%- if not ns.open -%}{{- ' [INST] ' -}}{%- endif -%}
{%- set ns.open = true -%}
{{- message.content + ('\n\n' if message.role == 'system' else ' [/INST]') -}}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kMistralV3 = R"({%- set ns = namespace(open=false) -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- ' ' + (message.content | trim) + '</s>' -}}
{%- set ns.open = false -%}
{%- else -%}
{%- if not ns.open -%}{{- '[INST] ' -}}{%- endif -%}
{%- set ns.open = true -%}
{{- message.content + ('\n\n' if message.role == 'system' else '[/INST]') -}}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kMistralV3Tekken = R"({%- set ns = namespace(open=false) -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- message.content + '</s>' -}}
{%- set ns.open = false -%}
{%- else -%}
{%- if not ns.open -%}{{- '[INST]' -}}{%- endif -%}
{%- set ns.open = true -%}
{{- message.content + ('\n\n' if message.role == 'system' else '[/INST]') -}}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kMistralV7 = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- '[SYSTEM_PROMPT] ' + message.content + '[/SYSTEM_PROMPT]' -}}
{%- elif message.role == 'assistant' -%}
{{- ' ' + message.content + '</s>' -}}
{%- else -%}
{{- '[INST] ' + message.content + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kMistralV7Tekken = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' -}}
{%- elif message.role == 'assistant' -%}
{{- message.content + '</s>' -}}
{%- else -%}
{{- '[INST]' + message.content + '[/INST]' -}}
{%- endif -%}
{%- endfor -%})";

constexpr const char* kPhi3 = R"({%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

constexpr const char* kPhi4 = R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant<|im_sep|>' -}}{%- endif -%})";

// There is no system turn: its text goes in front of the first user's.
constexpr const char* kGemma = R"({%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = ns.system + (message.content | trim) + '\n\n' -%}
{%- else -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' -}}
{%- if message.role != 'assistant' -%}{{- ns.system -}}{%- set ns.system = '' -%}{%- endif -%}
{{- (message.content | trim) + '<end_of_turn>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%})";

constexpr const char* kDeepseek = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content -}}
{%- elif message.role == 'assistant' -%}
{{- '### Response:\n' + message.content + '\n<|EOT|>\n' -}}
{%- else -%}
{{- '### Instruction:\n' + message.content + '\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '### Response:\n' -}}{%- endif -%})";

constexpr const char* kDeepseek2 = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content + '\n\n' -}}
{%- elif message.role == 'assistant' -%}
{{- 'Assistant: ' + message.content + '<｜end▁of▁sentence｜>' -}}
{%- else -%}
{{- 'User: ' + message.content + '\n\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%})";

constexpr const char* kDeepseek3 = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content + '\n\n' -}}
{%- elif message.role == 'assistant' -%}
{{- '<｜Assistant｜>' + message.content + '<｜end▁of▁sentence｜>' -}}
{%- else -%}
{{- '<｜User｜>' + message.content -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%})";

constexpr const char* kCommandR = R"({%- for message in messages -%}
{%- set name = {'system': 'SYSTEM', 'assistant': 'CHATBOT'}.get(message.role, 'USER') -%}
{{- '<|START_OF_TURN_TOKEN|><|' + name + '_TOKEN|>' + (message.content | trim) + '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}{%- endif -%})";

constexpr const char* kZephyr = R"({%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

constexpr const char* kVicuna = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content + '\n\n' -}}
{%- elif message.role == 'assistant' -%}
{{- 'ASSISTANT: ' + message.content + '</s>\n' -}}
{%- else -%}
{{- 'USER: ' + message.content + '\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'ASSISTANT:' -}}{%- endif -%})";

constexpr const char* kOpenchat = R"({%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content + '<|end_of_turn|>' -}}
{%- else -%}
{{- 'GPT4 Correct ' + (message.role | capitalize) + ': ' + message.content + '<|end_of_turn|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'GPT4 Correct Assistant:' -}}{%- endif -%})";

constexpr const char* kGranite = R"({%- for message in messages -%}
{{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_of_role|>assistant<|end_of_role|>' -}}{%- endif -%})";

constexpr const char* kExaone = R"({%- for message in messages -%}
{{- '[|' + message.role + '|]' + (message.content | trim) -}}
{{- '\n' if message.role == 'user' else '[|endofturn|]\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '[|assistant|]' -}}{%- endif -%})";

constexpr const char* kChatglm3 = R"({{- '[gMASK]sop' -}}
{%- for message in messages -%}
{{- '<|' + message.role + '|>\n ' + message.content -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%})";

constexpr const char* kChatglm4 = R"({{- '[gMASK]<sop>' -}}
{%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

// Without tools, reasoning and the built-in system page of the full format.
constexpr const char* kGptOss = R"({%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' -}}
{%- else -%}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%})";

constexpr const char* kKimiK2 = R"({%- for message in messages -%}
{%- set speaker = {'user': 'user', 'assistant': 'assistant'}.get(message.role, 'system') -%}
{{- '<|im_' + speaker + '|>' + message.role + '<|im_middle|>' + message.content + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_assistant|>assistant<|im_middle|>' -}}{%- endif -%})";

constexpr const char* kSmolvlm = R"({{- '<|im_start|>' -}}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content + '\n\n' -}}
{%- else -%}
{{- (message.role | capitalize) + ': ' + message.content + '<end_of_utterance>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%})";

constexpr const char* kFalcon3 = R"({%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%})";

constexpr Entry kTemplates[] = {
    {"chatglm3", kChatglm3},
    {"chatglm4", kChatglm4},
    {"chatml", kChatml},
    {"command-r", kCommandR},
    {"deepseek", kDeepseek},
    {"deepseek2", kDeepseek2},
    {"deepseek3", kDeepseek3},
    {"exaone3", kExaone},
    {"exaone4", kExaone},
    {"falcon3", kFalcon3},
    {"gemma", kGemma},
    {"gpt-oss", kGptOss},
    {"granite", kGranite},
    {"kimi-k2", kKimiK2},
    {"llama2", kLlama2},
    {"llama3", kLlama3},
    {"llama4", kLlama4},
    {"mistral-v1", kMistralV1},
    {"mistral-v3", kMistralV3},
    {"mistral-v3-tekken", kMistralV3Tekken},
    {"mistral-v7", kMistralV7},
    {"mistral-v7-tekken", kMistralV7Tekken},
    {"openchat", kOpenchat},
    {"phi3", kPhi3},
    {"phi4", kPhi4},
    {"qwen", kChatml},
    {"smolvlm", kSmolvlm},
    {"vicuna", kVicuna},
    {"zephyr", kZephyr},
};

}  // namespace

const char* builtin_template(const std::string& name) {
  for (const Entry& entry : kTemplates) {
    if (name == entry.name) return entry.source;
  }
  return nullptr;
}

std::vector<std::string> builtin_template_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTemplates) names.emplace_back(entry.name);
  return names;
}

}  // namespace loci
