// Connection: a client's socket, plain or TLS, as the stream that cpp-httplib reads requests from and writes answers
// to. Every read and write has a deadline, so that no client holds its thread for long (limits.h).
#pragma once
#include <httplib.h>

#include <chrono>
#include <memory>
#include <string>

#include "server/http/limits.h"
#include "server/http/tls.h"

namespace loci::server {

class Connection : public httplib::Stream {
 public:
  // Takes the socket over. `limits` outlive the connection. `tls`: nullptr for plain HTTP.
  Connection(int fd, std::unique_ptr<TlsSession> tls, const HttpLimits& limits);
  ~Connection() override;  // tells the client that nothing more will come, then closes

  // Waits for the first byte of a request, `slice_ms` at most.
  enum class Wait { kReady, kNothingYet, kGone };
  Wait wait(int slice_ms);
  // Starts the clock of a request's headers.
  void begin_request();
  // The head was read: what it was, byte for byte. From here on reads are the body's.
  std::string take_head();
  void begin_body();

  // True when the client has closed its end: nobody waits for the answer any more.
  bool peer_gone() const;
  bool broken() const { return broken_; }
  // Its next request cannot be told from the rest of this one.
  void close_after_answer() { close_ = true; }
  bool closes() const { return close_ || broken_; }

  bool is_readable() const override { return !broken_; }
  bool is_writable() const override { return !broken_; }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return -1; }  // of no use to anybody else

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kHead, kBody };

  ssize_t receive(char* data, size_t size, Clock::time_point deadline);
  bool wait_until(short events, Clock::time_point deadline);

  int fd_;
  std::unique_ptr<TlsSession> tls_;
  const HttpLimits& limits_;
  Phase phase_ = Phase::kHead;
  Clock::time_point phase_start_ = Clock::now();
  int64_t n_phase_bytes_ = 0;
  std::string head_;
  std::string buffer_;  // received, not yet read
  size_t buffer_at_ = 0;
  int64_t n_written_ = 0;
  std::chrono::duration<double, std::milli> blocked_{0};
  bool broken_ = false, close_ = false;
};

}  // namespace loci::server
