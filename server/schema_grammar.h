// JSON Schema to a Grammar whose every text is valid under the schema. What cannot be honoured is refused, with its
// place and keyword: nothing is ignored but annotations. The list is in docs/structured-output.md.
#pragma once
#include <nlohmann/json.hpp>

#include "engine/constraint/grammar.h"

namespace loci::server {

// The result is checked. Throws Error(kInvalidInput) for what is no schema or for which there is no valid value, and
// Error(kUnsupported): "schema #/properties/a: 'uniqueItems' is not supported".
Grammar schema_grammar(const nlohmann::ordered_json& schema);

// Any JSON object: response_format json_object.
Grammar json_object_grammar();

}  // namespace loci::server
