// A client for tests of the server: plain sockets, so that tests can send what no library would.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/body_fields.h"

namespace loci::test {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  std::vector<std::string> chunks;             // as they came
  server::Json json() const { return server::Json::parse(body); }
};

// One connection to 127.0.0.1. Reads give up after ten seconds.
class Socket {
 public:
  explicit Socket(int port);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool send(std::string_view bytes);  // false: the other end is closed
  std::string read_until(std::string_view end);
  std::string read_all();  // until the other end closes
  HttpAnswer read_answer();
  void close();

 private:
  bool receive();
  int fd_ = -1;
  std::string buffer_;
};

using HeaderList = std::vector<std::pair<std::string, std::string>>;

std::string request_text(std::string_view method, std::string_view path, std::string_view body = {},
                         const HeaderList& headers = {});
// On a connection of its own.
HttpAnswer http(int port, std::string_view method, std::string_view path, std::string_view body = {},
                const HeaderList& headers = {});

// The payloads of "data: " lines.
std::vector<std::string> events_of(std::string_view stream);

}  // namespace loci::test
