// Listener: accepts connections and hands their requests over, one thread per connection at work. HTTP itself is
// cpp-httplib's, but for the socket (connection.h) and bodies (request_body.h).
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "server/http/exchange.h"
#include "server/http/limits.h"

namespace loci::server {

struct ListenAddress {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any that is free
  std::string ssl_cert_file, ssl_key_file;
};

struct ListenerHooks {
  // Asked when the head has come, before the body is read: why the request is refused, if it is.
  std::function<std::optional<ApiError>(const RequestHead&)> admit;
  // Answers a request. Gets the refusal, if there is one; must send something.
  std::function<void(Exchange&, const std::optional<ApiError>& refusal)> serve;
  // A request has come, its answer has been written (or could not be).
  std::function<void()> begin, end;
};

class Listener {
 public:
  // Binds; connections wait until start(). Throws Error.
  Listener(const ListenAddress& address, const HttpLimits& limits, ListenerHooks hooks);
  ~Listener();
  void start();
  // No new connections; returns when those at work have ended. `hooks` are not called afterwards.
  void stop();
  int port() const { return port_; }

 private:
  class HttpServer;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<bool> ended_{false};
  int port_ = 0;
};

// Whether only this machine can connect to the host.
bool is_loopback(const std::string& host);

}  // namespace loci::server
