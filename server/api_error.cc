#include "server/api_error.h"

namespace loci::server {

ApiError api_error(int status, std::string type, std::string message) {
  ApiError out;
  out.status = status;
  out.type = std::move(type);
  out.message = std::move(message);
  return out;
}

ApiError to_api_error(const Error& error) {
  ApiError out;
  out.message = error.what();
  switch (error.kind()) {
    case ErrorKind::kInvalidInput:
      out.status = 400, out.type = "invalid_request_error";
      break;
    case ErrorKind::kNotFound:
      out.status = 404, out.type = "not_found_error";
      break;
    case ErrorKind::kUnsupported:
      out.status = 501, out.type = "not_supported_error";
      break;
    case ErrorKind::kOutOfMemory:
    case ErrorKind::kInternal:
      out.status = 500, out.type = "server_error";
      break;
  }
  return out;
}

ApiError context_exceeded(int64_t n_prompt_tokens, int64_t n_ctx) {
  ApiError out;
  out.status = 400;
  out.type = "exceed_context_size_error";
  out.message = str("request (", n_prompt_tokens, " tokens) exceeds the available context size (", n_ctx,
                    " tokens), try increasing it");
  out.n_prompt_tokens = n_prompt_tokens;
  out.n_ctx = n_ctx;
  return out;
}

ApiError timed_out(int64_t timeout_ms) {
  ApiError out;
  out.status = 408;
  out.type = "timeout_error";
  out.message = str("the answer was not ready after ", static_cast<double>(timeout_ms) / 1000, " s");
  return out;
}

Json error_body(const ApiError& error) {
  Json inner;
  inner["code"] = error.status;
  inner["message"] = error.message;
  inner["type"] = error.type;
  if (error.n_prompt_tokens) inner["n_prompt_tokens"] = *error.n_prompt_tokens;
  if (error.n_ctx) inner["n_ctx"] = *error.n_ctx;
  Json body;
  body["error"] = std::move(inner);
  return body;
}

}  // namespace loci::server
