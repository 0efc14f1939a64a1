// HttpServer: the listener, who may ask, and which endpoint answers. It listens before the model is loaded, and says
// so.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/gatekeeper.h"
#include "server/http/listener.h"
#include "server/service.h"

namespace loci::server {

struct HttpServerOptions {
  ListenAddress address;
  HttpLimits limits;
  AccessRules access;
  std::string api_prefix;  // before every path, as "/llm"
};

class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);  // binds and answers "Loading model"; throws Error
  ~HttpServer();
  // From now on requests are answered. `service` outlives the server, or stop().
  void serve(Service& service);
  // Refuses new requests, lets those at work end, until `hurry()` says true or the time is over; then breaks them off.
  void stop(int64_t drain_ms, const std::function<bool()>& hurry);

  int port() const { return listener_->port(); }
  std::string url() const;
  int n_active() const { return n_active_; }

 private:
  std::optional<ApiError> admit(const RequestHead& head);
  void answer(Exchange& exchange, const std::optional<ApiError>& refusal);
  void dispatch(Exchange& exchange);
  void add_cors_headers(Exchange& exchange) const;
  // The path that routes know; nothing when the prefix is missing.
  std::optional<std::string_view> routed_path(std::string_view path) const;

  const HttpServerOptions options_;
  const Gatekeeper gatekeeper_;
  std::atomic<Service*> service_{nullptr};
  std::atomic<bool> draining_{false};
  std::atomic<int> n_active_{0};
  std::unique_ptr<Listener> listener_;
};

}  // namespace loci::server
