#include "tests/server/http_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace loci::test {

Socket::Socket(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval timeout{10, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Socket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Socket::receive() {
  char bytes[65536];
  const ssize_t n = fd_ < 0 ? -1 : ::recv(fd_, bytes, sizeof bytes, 0);
  if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

std::string Socket::read_until(std::string_view end) {
  size_t at = 0;
  while ((at = buffer_.find(end)) == std::string::npos) {
    if (!receive()) return "";
  }
  std::string text = buffer_.substr(0, at + end.size());
  buffer_.erase(0, text.size());
  return text;
}

std::string Socket::read_all() {
  while (receive()) {
  }
  return std::move(buffer_);
}

HttpAnswer Socket::read_answer() {
  HttpAnswer answer;
  std::string head = read_until("\r\n\r\n");
  if (head.size() < 12) return answer;
  answer.status = std::atoi(head.c_str() + 9);
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string line = head.substr(at, end - at);
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) {
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      answer.headers[name] = line.substr(colon + 2);
    }
    at = end + 2;
  }
  if (answer.status == 100) return read_answer();
  if (answer.headers.count("transfer-encoding") > 0) {
    while (true) {
      const std::string size_line = read_until("\r\n");
      const size_t size = std::strtoul(size_line.c_str(), nullptr, 16);
      while (buffer_.size() < size + 2 && receive()) {
      }
      if (buffer_.size() < size + 2) return answer;
      if (size > 0) answer.chunks.push_back(buffer_.substr(0, size));
      buffer_.erase(0, size + 2);
      if (size == 0) break;
      answer.body += answer.chunks.back();
    }
  } else if (answer.headers.count("content-length") > 0) {
    const size_t size = std::strtoul(answer.headers["content-length"].c_str(), nullptr, 10);
    while (buffer_.size() < size && receive()) {
    }
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, answer.body.size());
  }
  return answer;
}

std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                         const HeaderList& headers) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

HttpAnswer http(int port, std::string_view method, std::string_view path, std::string_view body,
                const HeaderList& headers) {
  Socket socket(port);
  socket.send(request_text(method, path, body, headers));
  return socket.read_answer();
}

std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> events;
  for (size_t at = 0; (at = stream.find("data: ", at)) != std::string_view::npos;) {
    const size_t end = std::min(stream.find("\n\n", at), stream.size());
    events.emplace_back(stream.substr(at + 6, end - at - 6));
    at = end;
  }
  return events;
}

}  // namespace loci::test
