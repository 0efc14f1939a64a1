// TLS for connections, by OpenSSL.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace loci::server {

class TlsSession {
 public:
  TlsSession(ssl_ctx_st* context, int fd);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // n < 0 and not failed: wait until the socket is readable, or writable if wants_write, and try again.
  struct Result {
    ssize_t n = -1;
    bool failed = false, wants_write = false;
  };
  Result read(char* data, size_t size);
  Result write(const char* data, size_t size);
  bool pending() const;  // decrypted bytes wait
  void shutdown();

 private:
  Result outcome(int returned);
  ssl_st* ssl_;
  bool failed_ = false;
};

class TlsContext {
 public:
  // PEM files: the certificate with its chain, and its key. Throws Error.
  TlsContext(const std::string& cert_file, const std::string& key_file);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  // For an accepted socket, which becomes non-blocking.
  std::unique_ptr<TlsSession> accept(int fd) const;

 private:
  ssl_ctx_st* context_;
};

}  // namespace loci::server
