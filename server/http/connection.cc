#include "server/http/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace loci::server {
namespace {

constexpr size_t kBufferBytes = 16384;
// After the last answer: time and bytes for what the client was still sending, so that it sees the answer and not a
// reset.
constexpr int kLingerMs = 500;
constexpr size_t kLingerBytes = size_t{1} << 20;
constexpr ssize_t kTooLate = -2;  // of receive()

void address_of(int fd, bool remote, std::string& ip, int& port) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if ((remote ? getpeername(fd, address, &length) : getsockname(fd, address, &length)) != 0) return;
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    port = ntohs(v4->sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    port = ntohs(v6->sin6_port);
  }
  ip = text;
}

}  // namespace

Connection::Connection(int fd, std::unique_ptr<TlsSession> tls, const HttpLimits& limits)
    : fd_(fd), tls_(std::move(tls)), limits_(limits) {
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // an event is a packet of its own
}

Connection::~Connection() {
  if (tls_ != nullptr) tls_->shutdown();
  if (!broken_ && ::shutdown(fd_, SHUT_WR) == 0 && close_) {
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(kLingerMs);
    char waste[4096];
    for (size_t n = 0; n < kLingerBytes && wait_until(POLLIN, deadline);) {
      const ssize_t got = ::recv(fd_, waste, sizeof waste, MSG_DONTWAIT);
      if (got <= 0) break;
      n += static_cast<size_t>(got);
    }
  }
  ::close(fd_);
}

bool Connection::wait_until(short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd item{fd_, events, 0};
    const int n = ::poll(&item, 1, static_cast<int>(std::min<int64_t>(left, 60000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

Connection::Wait Connection::wait(int slice_ms) {
  if (broken_) return Wait::kGone;
  if (buffer_at_ < buffer_.size() || (tls_ != nullptr && tls_->pending())) return Wait::kReady;
  pollfd item{fd_, POLLIN, 0};
  const int n = ::poll(&item, 1, slice_ms);
  if (n == 0 || (n < 0 && errno == EINTR)) return Wait::kNothingYet;
  return n > 0 && (item.revents & POLLIN) != 0 ? Wait::kReady : Wait::kGone;
}

void Connection::begin_request() {
  phase_ = Phase::kHead;
  phase_start_ = Clock::now();
  n_phase_bytes_ = 0;
  head_.clear();
  n_written_ = 0;
  blocked_ = {};
}

std::string Connection::take_head() { return std::move(head_); }

void Connection::begin_body() {
  phase_ = Phase::kBody;
  phase_start_ = Clock::now();
  n_phase_bytes_ = 0;
}

bool Connection::peer_gone() const {
  if (broken_) return true;
  pollfd item{fd_, POLLRDHUP, 0};
  return ::poll(&item, 1, 0) > 0 && (item.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

ssize_t Connection::receive(char* data, size_t size, Clock::time_point deadline) {
  while (true) {
    short wanted = POLLIN;
    if (tls_ != nullptr) {
      const TlsSession::Result result = tls_->read(data, size);
      if (result.n >= 0) return result.n;
      if (result.failed) return -1;
      if (result.wants_write) wanted = POLLOUT;
    } else {
      const ssize_t n = ::recv(fd_, data, size, MSG_DONTWAIT);
      if (n >= 0) return n;
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    }
    if (!wait_until(wanted, deadline)) return kTooLate;
  }
}

ssize_t Connection::read(char* data, size_t size) {
  if (broken_ || size == 0) return broken_ ? -1 : 0;
  if (phase_ == Phase::kHead && n_phase_bytes_ >= limits_.max_header_bytes) {
    close_ = true;
    return -1;
  }
  if (buffer_at_ == buffer_.size()) {
    const bool head = phase_ == Phase::kHead;
    const auto deadline = phase_start_ + std::chrono::milliseconds(head ? limits_.header_timeout_ms
                                                                        : limits_.body_timeout_ms +
                                                                              1000 * n_phase_bytes_ / limits_.min_rate);
    buffer_.resize(kBufferBytes);
    buffer_at_ = 0;
    const ssize_t n = receive(buffer_.data(), buffer_.size(), deadline);
    buffer_.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n <= 0) {
      broken_ = n == -1;  // whoever is too late may still be told
      close_ = true;
      return n < 0 ? -1 : 0;
    }
  }
  const size_t n = std::min(size, buffer_.size() - buffer_at_);
  std::copy_n(buffer_.data() + buffer_at_, n, data);
  buffer_at_ += n;
  n_phase_bytes_ += static_cast<int64_t>(n);
  if (phase_ == Phase::kHead) head_.append(data, n);
  return static_cast<ssize_t>(n);
}

ssize_t Connection::write(const char* data, size_t size) {
  size_t done = 0;
  while (done < size && !broken_) {
    short wanted = POLLOUT;
    if (tls_ != nullptr) {
      const TlsSession::Result result = tls_->write(data + done, size - done);
      if (result.n > 0) {
        done += static_cast<size_t>(result.n);
        continue;
      }
      broken_ = result.failed;
      if (!result.wants_write) wanted = POLLIN;
    } else {
      const ssize_t n = ::send(fd_, data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n >= 0) {
        done += static_cast<size_t>(n);
        continue;
      }
      if (errno == EINTR) continue;
      broken_ = errno != EAGAIN && errno != EWOULDBLOCK;
    }
    if (broken_) break;
    const std::chrono::duration<double, std::milli> allowed(static_cast<double>(
        limits_.write_timeout_ms + 1000 * (n_written_ + static_cast<int64_t>(done)) / limits_.min_rate));
    const Clock::time_point start = Clock::now();
    const bool ready = blocked_ < allowed &&
                       wait_until(wanted, start + std::chrono::duration_cast<Clock::duration>(allowed - blocked_));
    blocked_ += Clock::now() - start;
    broken_ = !ready;
  }
  n_written_ += static_cast<int64_t>(done);
  return broken_ ? -1 : static_cast<ssize_t>(size);
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const { address_of(fd_, true, ip, port); }
void Connection::get_local_ip_and_port(std::string& ip, int& port) const { address_of(fd_, false, ip, port); }

}  // namespace loci::server
