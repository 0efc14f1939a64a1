// Exchange: one request and its answer, as an endpoint sees it. Used by one thread.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/body_fields.h"
#include "server/http/request_head.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace loci::server {

class Connection;

// How a dialect spells errors.
enum class ErrorShape { kOpenAi, kAnthropic, kOllama };
Json error_body(const ApiError& error, ErrorShape shape);

// Compact, always valid UTF-8.
std::string to_text(const Json& json);

// The body of a streamed answer.
class StreamWriter {
 public:
  explicit StreamWriter(std::function<bool(std::string_view)> write) : write_(std::move(write)) {}
  // Sends at once. False when the client is gone, or too slow.
  bool write(std::string_view bytes) { return alive_ = alive_ && write_(bytes); }

 private:
  std::function<bool(std::string_view)> write_;
  bool alive_ = true;
};

// Whether the client is still there. Valid until the answer has been written.
class ClientWatch {
 public:
  explicit ClientWatch(const Connection& connection) : connection_(&connection) {}
  bool gone() const;

 private:
  const Connection* connection_;
};

class Exchange {
 public:
  Exchange(const httplib::Request& request, httplib::Response& response, const RequestHead& head,
           Connection& connection);

  const std::string& method() const;
  const std::string& path() const { return path_; }  // without the prefix of --api-prefix
  void set_path(std::string path) { path_ = std::move(path); }
  const RequestHead& head() const { return head_; }
  const std::string& body() const;
  // The body as a JSON value. Throws Error.
  Json json() const;
  std::optional<std::string> query(const std::string& name) const;  // decoded
  bool client_gone() const { return watch().gone(); }
  ClientWatch watch() const { return ClientWatch(connection_); }

  void set_error_shape(ErrorShape shape) { shape_ = shape; }
  ErrorShape error_shape() const { return shape_; }
  int status() const;  // of what was sent

  void set_header(const std::string& name, const std::string& value);
  void send(int status, const std::string& content_type, std::string body);
  void send_json(const Json& json, int status = 200);
  void send_error(const ApiError& error);
  // Answers 200 and a body that `produce` writes, after the endpoint has returned, on the same thread.
  void send_stream(const std::string& content_type, std::function<void(StreamWriter&)> produce);

 private:
  const httplib::Request& request_;
  httplib::Response& response_;
  const RequestHead& head_;
  Connection& connection_;
  std::string path_;
  ErrorShape shape_ = ErrorShape::kOpenAi;
};

}  // namespace loci::server
