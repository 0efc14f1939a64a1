#include "main/server_options.h"

#include <sstream>

#include "kernels/error.h"
#include "main/cli.h"
#include "main/options.h"
#include "main/request_defaults.h"

namespace loci::cli {
namespace {

constexpr const char* kGroup = "Server";
constexpr const char* kAccessGroup = "Access";

void add_flag_pair(CLI::App& app, const std::string& name, bool& value, const std::string& what) {
  app.add_flag_callback(
         "--" + name, [&value] { value = true; }, what)
      ->group(kGroup);
  app.add_flag_callback(
         "--no-" + name, [&value] { value = false; }, "not so")
      ->group(kGroup);
}

void add_listen_options(CLI::App& app, server::HttpServerOptions& http) {
  app.add_option("--host", http.address.host, "address to listen on")
      ->group(kGroup)
      ->type_name("HOST")
      ->capture_default_str();
  app.add_option("--port", http.address.port, "0: one that is free, which is printed")
      ->check(CLI::Range(0, 65535))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--api-prefix", http.api_prefix, "put before every path, as /llm")->group(kGroup)->type_name("PATH");
  app.add_option("--ssl-cert-file", http.address.ssl_cert_file, "certificate with its chain, PEM: HTTPS")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_option("--ssl-key-file", http.address.ssl_key_file, "the certificate's key, PEM")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_option("--threads-http", http.limits.max_threads, "connections that are served at once; others wait")
      ->check(CLI::Range(1, 4096))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
}

void add_access_options(CLI::App& app, ServeOptions& options) {
  server::AccessRules& access = options.http.access;
  app.add_option("--api-key", options.api_keys, "keys that may ask, with commas; default: everybody may")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kAccessGroup)
      ->type_name("KEYS");
  app.add_option("--api-key-file", options.api_key_file, "keys, one a line; # begins a comment")
      ->group(kAccessGroup)
      ->type_name("FILE");
  app.add_option("--cors-origins", access.cors_origins,
                 "web pages that may read answers, with commas, or *; default: pages of this machine")
      ->group(kAccessGroup)
      ->type_name("LIST");
  app.add_option("--cors-methods", access.cors_methods, "Access-Control-Allow-Methods")
      ->group(kAccessGroup)
      ->type_name("LIST");
  app.add_option("--cors-headers", access.cors_headers, "Access-Control-Allow-Headers")
      ->group(kAccessGroup)
      ->type_name("LIST");
  app.add_flag("--cors-credentials", access.cors_credentials, "Access-Control-Allow-Credentials")->group(kAccessGroup);
}

void add_endpoint_options(CLI::App& app, server::ServiceSettings& service) {
  add_flag_pair(app, "metrics", service.metrics, "GET /metrics, in Prometheus' format");
  app.add_option("--metrics-prefix", service.metrics_prefix, "before each name; llamacpp: for its dashboards")
      ->group(kGroup)
      ->type_name("TEXT")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--pooling",
         [&service](const std::string& name) {
           service.pooling = name == "cls"    ? server::Pooling::kFirst
                             : name == "last" ? server::Pooling::kLast
                                              : server::Pooling::kMean;
         },
         "what an embedding is made of: the mean over all tokens (default), the first or the last token")
      ->check(CLI::IsMember({"mean", "cls", "last"}))
      ->group(kGroup)
      ->type_name("mean|cls|last");
  app.add_option("--sse-ping-interval", service.sse_ping_s, "a comment after so long a silence of a stream; 0: none")
      ->check(CLI::Range(0, 86400))
      ->group(kGroup)
      ->type_name("S")
      ->capture_default_str();
}

void add_request_options(CLI::App& app, ServeOptions& options, EngineConfig& config) {
  app.add_option("--np,--parallel", config.max_sequences, "requests that run at once, each of at most -c tokens")
      ->check(CLI::Range(1, 4096))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max-queued-requests", config.max_queue, "more that wait are turned away with 503; 0: none are")
      ->check(CLI::Range(0, INT32_MAX))
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  app.add_option("-a,--alias", options.aliases, "names of the model, with commas; default: its file's")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup)
      ->type_name("NAMES");
  add_answer_end_options(app, options.n_predict, options.stops, kGroup);
  add_flag_pair(app, "cache-prompt", options.cache_prompt, "reuse and keep K/V, unless a request says otherwise");
  app.add_flag("--keep-pseudo-headers", options.service.keep_pseudo_headers,
               "/v1/messages: keep lines of system prompts that coding assistants change with every call")
      ->group(kGroup);
  add_flag_pair(app, "prefill-assistant", options.prefill_assistant, "go on with a final assistant message");
  app.add_option("--to,--timeout", options.client_timeout_s,
                 "a client that sends or takes nothing for so long is given up")
      ->check(CLI::Range(1, 86400))
      ->group(kGroup)
      ->type_name("S")
      ->capture_default_str();
  add_request_timeout_option(app, options.timeout_ms);
  for (const char* name :
       {"--cb,--cont-batching", "--kvu,--kv-unified", "--slots", "--embedding,--embeddings", "--no-ui,--no-webui"}) {
    app.add_flag_callback(
           name, [] {}, "as always here")
        ->group(kGroup);
  }
}

}  // namespace

void add_server_options(CLI::App& app, ServeOptions& options, EngineConfig& config) {
  add_listen_options(app, options.http);
  add_access_options(app, options);
  add_endpoint_options(app, options.service);
  add_request_options(app, options, config);
}

void finish_server_options(ServeOptions& options) {
  std::vector<std::string>& keys = options.http.access.api_keys;
  for (const std::string& key : options.api_keys) keys.emplace_back(server::strip_blanks(key));
  if (!options.api_key_file.empty()) {
    std::istringstream lines(read_text(options.api_key_file));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const std::string_view key = server::strip_blanks(line);
      if (!key.empty() && key.front() != '#') keys.emplace_back(key);
    }
    if (keys.empty()) fail(ErrorKind::kInvalidInput, options.api_key_file, ": expected a key, found none");
  }
  for (const std::string& key : keys) {
    if (key.empty()) fail(ErrorKind::kInvalidInput, "invalid argument: --api-key: expected keys, found an empty one");
  }
  const server::ListenAddress& address = options.http.address;
  if (address.ssl_cert_file.empty() != address.ssl_key_file.empty()) {
    fail(ErrorKind::kInvalidInput, "invalid argument: --ssl-cert-file and --ssl-key-file go together");
  }
  std::string& prefix = options.http.api_prefix;
  if (!prefix.empty() && prefix.front() != '/') prefix = "/" + prefix;
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  server::HttpLimits& limits = options.http.limits;
  limits.body_timeout_ms = limits.write_timeout_ms = int64_t{1000} * options.client_timeout_s;
}

}  // namespace loci::cli
