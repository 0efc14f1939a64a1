// What endpoints with llama-server's native answers share.
#pragma once
#include "server/http/exchange.h"
#include "server/service.h"

namespace loci::server {

// Answers a body of POST /completion.
void run_native_completion(Service& service, Exchange& exchange, const Json& body);

}  // namespace loci::server
