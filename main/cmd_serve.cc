// loci serve: a model behind HTTP, for the clients of OpenAI's API and of llama-server.
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/answer.h"
#include "main/chat_format.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/interrupt.h"
#include "main/options.h"
#include "main/request_defaults.h"
#include "main/server_options.h"

namespace loci::cli {
namespace {

void warn_of_open_door(const ServeOptions& options) {
  if (server::is_loopback(options.http.address.host) || !options.http.access.api_keys.empty()) return;
  log_warn("--host ", options.http.address.host, ": other machines may ask, and no key is needed; --api-key sets one");
}

void wait_for_signal(const interrupt::Prompting& prompting) {
  while (prompting.signal() == 0) {
    pollfd item{interrupt::wake_fd(), POLLIN, 0};
    poll(&item, 1, -1);
    interrupt::drain_wake_fd();
  }
}

}  // namespace

int cmd_serve(const std::vector<std::string>& args) {
  const auto app = make_app("serve",
                            "Serves a model over HTTP: OpenAI's API and llama-server's. Ctrl-C or SIGTERM lets the "
                            "requests at work end; a second one ends at once.");
  ServeOptions options;
  EngineConfig config;
  config.max_sequences = 4;
  config.max_queue = 1024;
  ChatOptions chat;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  ConstraintOptions constraint;
  add_server_options(*app, options, config);
  add_model_options(*app, config);
  add_scheduling_options(*app, config);
  add_speculation_options(*app, config, speculation);
  add_template_options(*app, chat);
  add_tool_dialect_option(*app, options.dialect);
  add_sampling_options(*app, sampling);
  add_constraint_options(*app, constraint);
  if (!parse(*app, args)) return 0;
  if (const std::string wrong = check(sampling.params, INT32_MAX); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  check_scheduling(config);
  finish_server_options(options);
  const std::optional<Grammar> form = read_constraint(constraint);
  interrupt::install();

  config.model_path = resolve_model(config.model_path);
  finish_speculation(config, speculation);
  server::HttpServer http(options.http);
  warn_of_open_door(options);
  const std::unique_ptr<Engine> engine = load_with_progress(config);
  chat.conversation = {};
  const ChatFormat format(*engine, chat);
  if (const std::string taken = apply_recommended(sampling, engine->metadata()); !taken.empty()) {
    log_info("note: sampling as the model file recommends: ", taken);
  }
  server::ServiceSettings settings = options.service;
  settings.defaults = request_defaults(*engine, format, chat, sampling, speculation, options.dialect);
  settings.defaults.form = form;
  settings.defaults.max_tokens = options.n_predict;
  settings.defaults.stops = options.stops;
  settings.defaults.timeout_ms = options.timeout_ms;
  settings.defaults.cache_prompt = options.cache_prompt;
  settings.defaults.prefill_assistant = options.prefill_assistant;
  settings.aliases = options.aliases;
  if (settings.aliases.empty()) settings.aliases.push_back(model_name(config.model_path));
  settings.fingerprint = fingerprint_text(*engine, format, chat, settings.defaults, {});

  server::Service service(*engine, settings);
  const interrupt::Prompting prompting;
  http.serve(service);
  log_info("loci: serving ", service.model_name(), ", ", config.max_sequences, " requests at once, each of up to ",
           settings.defaults.n_ctx, " tokens; listening on ", http.url());
  wait_for_signal(prompting);
  log_info("loci: ", http.n_active(), " requests are at work; once more Ctrl-C ends them");
  http.stop(options.drain_ms, [] { return false; });
  return 0;
}

}  // namespace loci::cli
