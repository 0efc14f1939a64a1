// The parser for the answers to a request.
#pragma once
#include <string>

#include "server/completion_request.h"
#include "server/tools/output_parser.h"

namespace loci::server {

// For one choice. `id_seed`: names response and choice; ids of calls are made from it. `streams`: arguments of calls
// come as they are written.
OutputParser output_parser(const CompletionRequest& request, std::string id_seed, bool streams);

}  // namespace loci::server
