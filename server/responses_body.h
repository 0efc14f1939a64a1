// Bodies of POST /v1/responses (OpenAI) to those of /v1/chat/completions.
#pragma once
#include "server/body_fields.h"

namespace loci::server {

// Throws Error naming the field.
Json chat_body_of_responses(const Json& body);

}  // namespace loci::server
