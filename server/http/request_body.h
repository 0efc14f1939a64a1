// Reads the body of a request: with a length, or in chunks, strictly and within the limits.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/http/request_head.h"

namespace loci::server {

// What the head announces.
struct BodyFraming {
  bool chunked = false;
  int64_t length = 0;  // without chunks
};
// Sets `error` when the head is ambiguous or too much is announced.
BodyFraming read_framing(const RequestHead& head, int64_t max_bytes, std::optional<ApiError>& error);

// `read(data, size)`: bytes got, 0 at the end, negative when the client is gone or too slow. An error means that the
// connection cannot be used again.
std::optional<ApiError> read_body(const BodyFraming& framing, int64_t max_bytes,
                                  const std::function<int64_t(char* data, int64_t size)>& read, std::string& body);

}  // namespace loci::server
