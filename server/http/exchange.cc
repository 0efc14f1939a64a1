#include "server/http/exchange.h"

#include <httplib.h>

#include "server/http/connection.h"
#include "server/json.h"

namespace loci::server {
namespace {

const char* anthropic_type(int status) {
  switch (status) {
    case 400:
    case 408:
    case 501:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return "api_error";
  }
}

}  // namespace

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json error_body(const ApiError& error, ErrorShape shape) {
  Json body;
  switch (shape) {
    case ErrorShape::kOpenAi:
      return error_body(error);
    case ErrorShape::kAnthropic:
      body["type"] = "error";
      body["error"]["type"] = anthropic_type(error.status);
      body["error"]["message"] = error.message;
      break;
    case ErrorShape::kOllama:
      body["error"] = error.message;
      break;
  }
  return body;
}

Exchange::Exchange(const httplib::Request& request, httplib::Response& response, const RequestHead& head,
                   Connection& connection)
    : request_(request), response_(response), head_(head), connection_(connection), path_(request.path) {}

const std::string& Exchange::method() const { return request_.method; }
int Exchange::status() const { return response_.status; }
const std::string& Exchange::body() const { return request_.body; }
Json Exchange::json() const { return parse_json(request_.body, "the request's body"); }

std::optional<std::string> Exchange::query(const std::string& name) const {
  if (!request_.has_param(name)) return std::nullopt;
  return request_.get_param_value(name);
}

bool ClientWatch::gone() const { return connection_->peer_gone(); }

void Exchange::set_header(const std::string& name, const std::string& value) { response_.set_header(name, value); }

void Exchange::send(int status, const std::string& content_type, std::string body) {
  response_.status = status;
  response_.set_content(body, content_type);
}

void Exchange::send_json(const Json& json, int status) {
  send(status, "application/json; charset=utf-8", to_text(json));
}

void Exchange::send_error(const ApiError& error) { send_json(error_body(error, shape_), error.status); }

void Exchange::send_stream(const std::string& content_type, std::function<void(StreamWriter&)> produce) {
  response_.status = 200;
  response_.set_header("Cache-Control", "no-cache");
  response_.set_header("X-Accel-Buffering", "no");  // proxies should pass events on at once
  auto provide = [produce = std::move(produce)](size_t, httplib::DataSink& sink) {
    StreamWriter writer([&sink](std::string_view bytes) { return sink.write(bytes.data(), bytes.size()); });
    produce(writer);
    if (writer.write("")) sink.done();
    return true;
  };
  if (request_.version == "HTTP/1.0") {
    connection_.close_after_answer();
    response_.set_content_provider(content_type, std::move(provide));
  } else {
    response_.set_chunked_content_provider(content_type, std::move(provide));
  }
}

}  // namespace loci::server
