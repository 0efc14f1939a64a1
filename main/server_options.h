// The flags of loci serve.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "server/http_server.h"
#include "server/service.h"

namespace CLI {
class App;
}
namespace loci::cli {

struct ServeOptions {
  server::HttpServerOptions http;
  server::ServiceSettings service;  // but for its defaults, which need the model
  std::vector<std::string> aliases, api_keys;
  std::string api_key_file;
  int64_t n_predict = -1;
  int64_t timeout_ms = -1;  // of a whole answer
  int client_timeout_s = 30;
  int64_t drain_ms = 30000;
  std::vector<std::string> stops;
  std::string dialect = "auto";  // of tool calls
  bool cache_prompt = true, prefill_assistant = true;
};

void add_server_options(CLI::App& app, ServeOptions& options, EngineConfig& config);
// After parse(): reads keys, completes the rest. Throws Error for what does not go together.
void finish_server_options(ServeOptions& options);

}  // namespace loci::cli
