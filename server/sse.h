// EventStream: server-sent events, or JSON a line, on a streamed answer. Each is sent at once.
#pragma once
#include <chrono>
#include <string_view>

#include "server/http/exchange.h"

namespace loci::server {

inline constexpr const char* kEventStreamType = "text/event-stream";

class EventStream {
 public:
  // `ping_s`: 0: none.
  EventStream(StreamWriter& writer, int ping_s) : writer_(writer), ping_(ping_s) {}

  void data(const Json& json);                          // data: {...}
  void event(std::string_view name, const Json& json);  // with an event: line before it
  void line(const Json& json);                          // {...} and a line's end, without SSE around it
  void done();                                          // data: [DONE]
  // A comment, when the stream was silent for the time of the constructor.
  void ping_if_silent();
  bool alive() const { return alive_; }

 private:
  void write(std::string_view bytes);
  StreamWriter& writer_;
  std::chrono::seconds ping_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool alive_ = true;
};

}  // namespace loci::server
