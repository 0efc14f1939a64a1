#include "server/sse.h"

#include <string>

namespace loci::server {

void EventStream::write(std::string_view bytes) {
  alive_ = alive_ && writer_.write(bytes);
  last_ = std::chrono::steady_clock::now();
}

void EventStream::data(const Json& json) { write("data: " + to_text(json) + "\n\n"); }

void EventStream::event(std::string_view name, const Json& json) {
  write("event: " + std::string(name) + "\ndata: " + to_text(json) + "\n\n");
}

void EventStream::line(const Json& json) { write(to_text(json) + "\n"); }

void EventStream::done() { write("data: [DONE]\n\n"); }

void EventStream::ping_if_silent() {
  if (ping_.count() > 0 && std::chrono::steady_clock::now() - last_ >= ping_) write(":\n\n");
}

}  // namespace loci::server
