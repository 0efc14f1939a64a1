#include "server/http/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>

#include "kernels/check.h"
#include "kernels/error.h"

namespace loci::server {
namespace {

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

int clamped(size_t size) { return static_cast<int>(std::min<size_t>(size, 1 << 20)); }

}  // namespace

TlsSession::TlsSession(ssl_ctx_st* context, int fd) : ssl_(SSL_new(context)) {
  LOCI_CHECK(ssl_ != nullptr, "SSL_new: ", openssl_reason());
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  SSL_set_fd(ssl_, fd);
  SSL_set_accept_state(ssl_);  // the handshake is part of the first read, under its deadline
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsSession::Result TlsSession::outcome(int returned) {
  if (returned > 0) return {returned, false, false};
  const int error = SSL_get_error(ssl_, returned);
  if (error == SSL_ERROR_WANT_READ) return {};
  if (error == SSL_ERROR_WANT_WRITE) return {-1, false, true};
  if (error == SSL_ERROR_ZERO_RETURN) return {0, false, false};
  failed_ = true;
  ERR_clear_error();
  return {-1, true, false};
}

TlsSession::Result TlsSession::read(char* data, size_t size) { return outcome(SSL_read(ssl_, data, clamped(size))); }

TlsSession::Result TlsSession::write(const char* data, size_t size) {
  Result result = outcome(SSL_write(ssl_, data, clamped(size)));
  if (result.n == 0) result = {-1, true, false};  // the client has closed
  return result;
}

bool TlsSession::pending() const { return SSL_pending(ssl_) > 0; }

void TlsSession::shutdown() {
  if (!failed_ && SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
  ERR_clear_error();
}

TlsContext::TlsContext(const std::string& cert_file, const std::string& key_file)
    : context_(SSL_CTX_new(TLS_server_method())) {
  LOCI_CHECK(context_ != nullptr, "SSL_CTX_new: ", openssl_reason());
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  std::string wrong;
  if (SSL_CTX_use_certificate_chain_file(context_, cert_file.c_str()) != 1) {
    wrong = str(cert_file, ": expected a certificate in PEM form: ", openssl_reason());
  } else if (SSL_CTX_use_PrivateKey_file(context_, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    wrong = str(key_file, ": expected a private key in PEM form, the one of the certificate: ", openssl_reason());
  }
  if (wrong.empty()) return;
  SSL_CTX_free(context_);
  fail(ErrorKind::kInvalidInput, wrong);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::unique_ptr<TlsSession> TlsContext::accept(int fd) const { return std::make_unique<TlsSession>(context_, fd); }

}  // namespace loci::server
