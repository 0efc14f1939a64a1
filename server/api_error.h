// ApiError: a failure as clients of the OpenAI-style endpoints see it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/error.h"
#include "server/body_fields.h"

namespace loci::server {

struct ApiError {
  int status = 500;  // HTTP status, repeated as "code" in the body
  std::string type;  // "invalid_request_error", ...
  std::string message;
  std::optional<int64_t> n_prompt_tokens, n_ctx;  // of an exceed_context_size_error
};

ApiError api_error(int status, std::string type, std::string message);
ApiError to_api_error(const Error& error);
ApiError context_exceeded(int64_t n_prompt_tokens, int64_t n_ctx);

ApiError timed_out(int64_t timeout_ms);

// {"error":{"code":400,"message":"...","type":"..."}}
Json error_body(const ApiError& error);

}  // namespace loci::server
