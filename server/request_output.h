// The parser for the answers to a request.
#pragma once
#include <string>
#include <string_view>

#include "server/completion_request.h"
#include "server/tools/output_parser.h"

namespace loci::server {

// For one choice. `id_seed`: names response and choice; ids of calls are made from it. `streams`: arguments of calls
// come as they are written.
OutputParser output_parser(const CompletionRequest& request, std::string id_seed, bool streams);

// The seed for a choice of the response with this id.
std::string id_seed_of(const std::string& response_id, size_t choice);

// All of an answer.
ParsedOutput parse_output(const CompletionRequest& request, std::string_view text, std::string id_seed);

}  // namespace loci::server
