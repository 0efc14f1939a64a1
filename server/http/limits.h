// What one client may take of the server: bytes and time.
#pragma once
#include <cstdint>

namespace loci::server {

struct HttpLimits {
  int64_t max_header_bytes = int64_t{64} << 10;  // request line and headers together
  int64_t max_body_bytes = int64_t{64} << 20;
  int64_t header_timeout_ms = 10000;  // from a request's first byte to the end of its headers
  // A body may take, and the writes of an answer may be blocked, for this time and a second for each min_rate bytes.
  int64_t body_timeout_ms = 20000, write_timeout_ms = 30000;
  int64_t min_rate = 4096;
  int64_t idle_timeout_ms = 5000;  // between two requests of a connection
  int max_threads = 256;           // requests that are served at once
};

}  // namespace loci::server
