#include "server/http_server.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "kernels/log.h"
#include "server/endpoints/endpoints.h"
#include "server/routes.h"

namespace loci::server {
namespace {

ApiError unavailable(const std::string& message) { return api_error(503, "unavailable_error", message); }

ApiError not_found() { return api_error(404, "not_found_error", "File Not Found"); }

// Seconds after which a refused client may find a place.
std::string retry_after(Service& service) {
  const double wait_s = service.engine_metrics().queue_ms.mean() / 1000;
  return std::to_string(std::clamp(static_cast<int>(wait_s + 0.5), 1, 60));
}

}  // namespace

HttpServer::HttpServer(HttpServerOptions options) : options_(std::move(options)), gatekeeper_(options_.access) {
  ListenerHooks hooks;
  hooks.admit = [this](const RequestHead& head) { return admit(head); };
  hooks.serve = [this](Exchange& exchange, const std::optional<ApiError>& refusal) { answer(exchange, refusal); };
  hooks.begin = [this] { ++n_active_; };
  hooks.end = [this] { --n_active_; };
  listener_ = std::make_unique<Listener>(options_.address, options_.limits, std::move(hooks));
  listener_->start();
}

HttpServer::~HttpServer() { listener_->stop(); }

void HttpServer::serve(Service& service) { service_ = &service; }

void HttpServer::stop(int64_t drain_ms, const std::function<bool()>& hurry) {
  draining_ = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(drain_ms);
  while (n_active_ > 0 && !hurry() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (Service* service = service_; service != nullptr && n_active_ > 0) {
    log_warn(n_active_.load(), " requests are broken off");
    service->thread().cancel_all();
  }
  listener_->stop();
  service_ = nullptr;
}

std::string HttpServer::url() const {
  const std::string& host = options_.address.host;
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const char* scheme = options_.address.ssl_cert_file.empty() ? "http://" : "https://";
  return scheme + name + ":" + std::to_string(port()) + options_.api_prefix;
}

std::optional<std::string_view> HttpServer::routed_path(std::string_view path) const {
  const std::string& prefix = options_.api_prefix;
  if (path.substr(0, prefix.size()) != prefix) return std::nullopt;
  path.remove_prefix(prefix.size());
  if (path.empty()) return "/";
  if (path.front() != '/') return std::nullopt;
  return path;
}

std::optional<ApiError> HttpServer::admit(const RequestHead& head) {
  if (gatekeeper_.open() || head.method() == "OPTIONS") return std::nullopt;
  if (const auto path = routed_path(head.path())) {
    const RouteMatch match = find_route(head.method(), *path);
    if (match.route != nullptr && !match.route->needs_key) return std::nullopt;
  }
  if (gatekeeper_.has_key(head)) return std::nullopt;
  return api_error(401, "authentication_error", "Invalid API Key");
}

void HttpServer::add_cors_headers(Exchange& exchange) const {
  const std::optional<std::string> origin = gatekeeper_.allowed_origin(exchange.head());
  if (!origin) return;
  const AccessRules& rules = gatekeeper_.rules();
  exchange.set_header("Access-Control-Allow-Origin", *origin);
  if (*origin != "*") exchange.set_header("Vary", "Origin");
  if (rules.cors_credentials) exchange.set_header("Access-Control-Allow-Credentials", "true");
  if (exchange.method() != "OPTIONS") return;
  exchange.set_header("Access-Control-Allow-Methods", rules.cors_methods);
  exchange.set_header("Access-Control-Allow-Headers", rules.cors_headers);
}

void HttpServer::answer(Exchange& exchange, const std::optional<ApiError>& refusal) {
  Service* service = service_;
  add_cors_headers(exchange);
  exchange.set_header("X-Content-Type-Options", "nosniff");
  try {
    if (refusal) {
      exchange.send_error(*refusal);
    } else {
      dispatch(exchange);
    }
  } catch (const QueueFull& error) {
    if (service != nullptr) exchange.set_header("Retry-After", retry_after(*service));
    exchange.send_error(unavailable(error.what()));
  } catch (const Error& error) {
    exchange.send_error(to_api_error(error));
  } catch (const std::exception& error) {
    // Its text may hold anything: for the log alone.
    log_line(LogLevel::kError, str("a request failed: ", error.what()));
    exchange.send_error(to_api_error(Error(ErrorKind::kInternal, "the request failed; the server's log says why")));
  }
  if (service != nullptr) service->statuses().add(exchange.status());
}

void HttpServer::dispatch(Exchange& exchange) {
  if (exchange.method() == "OPTIONS") return exchange.send(200, "text/plain", "");
  const std::optional<std::string_view> path = routed_path(exchange.path());
  const RouteMatch match = path ? find_route(exchange.method(), *path) : RouteMatch{};
  if (match.route != nullptr) exchange.set_error_shape(match.route->errors);
  Service* service = service_;
  if (service == nullptr) return exchange.send_error(unavailable("Loading model"));
  if (draining_) {
    exchange.set_header("Retry-After", "1");
    return exchange.send_error(unavailable("the server is shutting down"));
  }
  if (match.other_method) {
    ApiError error = not_found();
    error.status = 405;
    error.message = str("the path takes another method than ", exchange.method().substr(0, 16));
    return exchange.send_error(error);
  }
  if (match.route == nullptr) return exchange.send_error(not_found());
  exchange.set_path(std::string(*path));
  match.route->serve(*service, exchange);
}

}  // namespace loci::server
