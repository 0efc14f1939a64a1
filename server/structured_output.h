// What a body (or a flag) asks of the form of an answer, as a Grammar: response_format, json_schema, grammar,
// structured_outputs and the guided_... fields.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar.h"
#include "server/body_fields.h"
#include "server/prompt_tokens.h"

namespace loci::server {

// nullopt: the form is free. Throws Error naming the field, and the place inside a schema or grammar.
std::optional<Grammar> read_structured_output(const BodyFields& body);

// A JSON schema given as text: --json-schema. `what` names it in errors of syntax.
Grammar schema_text_grammar(const std::string& text, const std::string& what);

// How an answer to this prompt may think before it obeys; `template_source` decides whether the model thinks at all
// where the prompt has not opened it. Empty markers for models that do not think.
ThinkingMarkers thinking_markers(const PromptTokens& prompt, std::string_view template_source);

}  // namespace loci::server
