// Bodies of POST /v1/messages (Anthropic's API) to those of /v1/chat/completions.
#pragma once
#include <string>

#include "server/body_fields.h"

namespace loci::server {

// Throws Error naming the field. `keep_headers`: keep pseudo-header lines of coding assistants in the system prompt.
// They change with every call, and with them all that follows would miss the cache.
Json chat_body_of_anthropic(const Json& body, bool keep_headers);

// `system` without lines that begin with a known pseudo-header (x-anthropic-billing-header:).
std::string without_pseudo_headers(const std::string& system);

}  // namespace loci::server
