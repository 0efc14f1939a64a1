// A server with a tiny model, on a free port.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "server/http_server.h"
#include "tests/server/http_client.h"

namespace loci::test {

struct ServedOptions {
  server::HttpServerOptions http;
  server::ServiceSettings service;
  EngineConfig engine;
  int n_ctx = 512;
  bool load = true;  // false: the server stays at "Loading model"
};

class ServedModel {
 public:
  explicit ServedModel(ServedOptions options = {});
  ~ServedModel();

  int port() const { return server_->port(); }
  server::HttpServer& http_server() { return *server_; }
  server::Service& service() { return *service_; }
  Metrics metrics() const { return engine_->metrics(); }

  HttpAnswer get(std::string_view path, const HeaderList& headers = {}) {
    return http(port(), "GET", path, {}, headers);
  }
  HttpAnswer post(std::string_view path, std::string_view body, const HeaderList& headers = {}) {
    return http(port(), "POST", path, body, headers);
  }
  // Waits (ten seconds at most) until the engine has nothing to do and no request is at work.
  bool becomes_idle();

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::unique_ptr<server::HttpServer> server_;
  std::unique_ptr<server::Service> service_;
};

}  // namespace loci::test
