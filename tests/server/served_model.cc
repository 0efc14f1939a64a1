#include "tests/server/served_model.h"

#include <chrono>
#include <thread>

#include "tests/support/tiny_model.h"

namespace loci::test {

ServedModel::ServedModel(ServedOptions options) {
  options.http.address.port = 0;
  server_ = std::make_unique<server::HttpServer>(options.http);
  if (!options.load) return;
  static const std::string path = tiny_model_file({});
  options.engine.model_path = path;
  options.engine.n_ctx = options.n_ctx;
  options.engine.n_threads = 1;
  if (options.engine.max_sequences == 1) options.engine.max_sequences = 4;
  engine_ = Engine::load(options.engine);
  chat_template_ = std::make_unique<ChatTemplate>(ChatTemplate::builtin("chatml"));
  server::RequestDefaults& defaults = options.service.defaults;
  defaults.tokenizer = &engine_->tokenizer();
  defaults.chat_template = chat_template_.get();
  defaults.n_ctx = engine_->info().n_ctx;
  if (options.service.aliases.empty()) options.service.aliases = {"tiny"};
  options.service.fingerprint = "test";
  service_ = std::make_unique<server::Service>(*engine_, options.service);
  server_->serve(*service_);
}

ServedModel::~ServedModel() {
  server_->stop(0, [] { return true; });
}

bool ServedModel::becomes_idle() {
  for (int i = 0; i < 1000; ++i) {
    const Metrics m = metrics();
    if (m.n_running + m.n_waiting == 0 && server_->n_active() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace loci::test
