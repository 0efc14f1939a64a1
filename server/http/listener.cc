#include "server/http/listener.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "kernels/error.h"
#include "kernels/log.h"
#include "server/http/connection.h"
#include "server/http/request_body.h"
#include "server/http/tls.h"
#include "server/http/worker_pool.h"

namespace loci::server {
namespace {

constexpr int kBacklog = 512;
constexpr int kWaitSliceMs = 100;
constexpr int kRequestsPerConnection = 1000;

// A request on its way through cpp-httplib, which hands nothing of ours along.
struct Current {
  Connection* connection = nullptr;
  RequestHead head;
  std::optional<ApiError> refusal;
};
thread_local Current t_current;

struct AtWork {
  explicit AtWork(const ListenerHooks& h) : hooks(h) { hooks.begin(); }
  ~AtWork() { hooks.end(); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  const ListenerHooks& hooks;
};

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

class Listener::HttpServer : public httplib::Server {
 public:
  HttpServer(const ListenAddress& address, const HttpLimits& limits, ListenerHooks hooks)
      : limits_(limits), hooks_(std::move(hooks)) {
    if (!address.ssl_cert_file.empty()) {
      tls_ = std::make_unique<TlsContext>(address.ssl_cert_file, address.ssl_key_file);
    }
    set_keep_alive_timeout(limits_.idle_timeout_ms / 1000);
    set_keep_alive_max_count(kRequestsPerConnection);
    set_default_headers({{"Server", "loci/" LOCI_VERSION}});
    new_task_queue = [this]() -> httplib::TaskQueue* { return pool_ = new WorkerPool(limits_.max_threads); };
    // Everything is answered here: cpp-httplib's own routing is never reached.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Exchange exchange(request, response, t_current.head, *t_current.connection);
      hooks_.serve(exchange, t_current.refusal);
      return HandlerResponse::Handled;
    });
    // What cpp-httplib could not read as a request. The rest of the connection makes no sense either.
    HandlerWithResponse explain = [](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return HandlerResponse::Unhandled;
      ApiError error = api_error(response.status, "invalid_request_error",
                                 response.status == 414 ? "the request's target is too long"
                                                        : "expected an HTTP/1.1 request with well-formed headers");
      response.set_content(to_text(error_body(error)), "application/json; charset=utf-8");
      t_current.connection->close_after_answer();
      return HandlerResponse::Handled;
    };
    set_error_handler(std::move(explain));
    set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
  }

  int bind(const ListenAddress& address) {
    int port = address.port;
    const bool bound =
        port == 0 ? (port = bind_to_any_port(address.host)) > 0 : bind_to_port(address.host, address.port);
    if (!bound) {
      fail(ErrorKind::kInvalidInput, "cannot listen on ", address.host, ':', address.port, ": ", std::strerror(errno));
    }
    ::listen(svr_sock_, kBacklog);  // cpp-httplib's own is 5
    return port;
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, tls_ != nullptr ? tls_->accept(socket) : nullptr, limits_);
    for (int n = 0; n < kRequestsPerConnection && wait_for_request(connection, n == 0); ++n) {
      t_current = {};
      t_current.connection = &connection;
      connection.begin_request();
      bool client_closes = false;
      const AtWork at_work(hooks_);
      const bool closes = n + 1 == kRequestsPerConnection;
      if (!process_request(connection, closes, client_closes,
                           [this](httplib::Request& request) { prepare(request); }) ||
          client_closes || connection.closes()) {
        break;
      }
    }
    t_current = {};
    return true;
  }

  bool wait_for_request(Connection& connection, bool is_first) const {
    const int64_t timeout_ms = is_first ? limits_.header_timeout_ms : limits_.idle_timeout_ms;
    for (int64_t waited = 0; waited < timeout_ms; waited += kWaitSliceMs) {
      switch (connection.wait(kWaitSliceMs)) {
        case Connection::Wait::kReady:
          return true;
        case Connection::Wait::kGone:
          return false;
        case Connection::Wait::kNothingYet:
          if (pool_->crowded()) return false;
      }
    }
    return false;
  }

  // The head has been read: lets it in, and reads the body in place of cpp-httplib, which would read it without limit.
  void prepare(httplib::Request& request) {
    Connection& connection = *t_current.connection;
    t_current.head = RequestHead(connection.take_head());
    const RequestHead& head = t_current.head;
    request.ranges.clear();
    BodyFraming framing = read_framing(head, limits_.max_body_bytes, t_current.refusal);
    if (!t_current.refusal) t_current.refusal = hooks_.admit(head);
    if (!t_current.refusal && (framing.chunked || framing.length > 0)) {
      if (const auto expect = head.header("Expect"); expect && equal_fold(*expect, "100-continue")) {
        constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        connection.write(kContinue.data(), kContinue.size());
      }
      connection.begin_body();
      t_current.refusal = read_body(
          framing, limits_.max_body_bytes,
          [&](char* data, int64_t size) -> int64_t { return connection.read(data, static_cast<size_t>(size)); },
          request.body);
      framing = {};
      if (t_current.refusal) connection.close_after_answer();
    }
    if (framing.chunked || framing.length > 0) connection.close_after_answer();  // a body that stays unread
    if (connection.closes()) {
      request.headers.erase("Connection");
      request.headers.emplace("Connection", "close");
    }
    for (const char* name : {"Content-Length", "Transfer-Encoding", "Expect", "Content-Type", "Content-Encoding"}) {
      request.headers.erase(name);
    }
    request.headers.emplace("Content-Length", "0");
  }

  const HttpLimits limits_;
  const ListenerHooks hooks_;
  std::unique_ptr<TlsContext> tls_;
  WorkerPool* pool_ = nullptr;  // cpp-httplib's, while it listens
};

Listener::Listener(const ListenAddress& address, const HttpLimits& limits, ListenerHooks hooks)
    : server_(std::make_unique<HttpServer>(address, limits, std::move(hooks))), port_(server_->bind(address)) {
  std::signal(SIGPIPE, SIG_IGN);  // a client that is gone is an error of a write
}

Listener::~Listener() { stop(); }

void Listener::start() {
  thread_ = std::thread([this] {
    if (!server_->listen_after_bind()) log_warn("the listener has ended: ", std::strerror(errno));
    ended_ = true;
  });
}

void Listener::stop() {
  if (!thread_.joinable()) return;
  while (!server_->is_running() && !ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_->stop();
  thread_.join();
}

}  // namespace loci::server
