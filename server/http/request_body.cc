#include "server/http/request_body.h"

#include <algorithm>
#include <charconv>

namespace loci::server {
namespace {

constexpr int64_t kMaxLineBytes = 256;  // of a chunk's size and of a trailer
constexpr int kMaxTrailers = 32;
constexpr int64_t kPieceBytes = 65536;

ApiError bad_body(const std::string& message) { return api_error(400, "invalid_request_error", message); }

ApiError too_large(int64_t max_bytes) {
  return api_error(413, "invalid_request_error",
                   str("the request's body is too large: expected at most ", max_bytes, " bytes"));
}

template <typename Number>
bool parse_digits(std::string_view text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && text.front() != '-';
}

class BodyReader {
 public:
  BodyReader(int64_t max_bytes, const std::function<int64_t(char*, int64_t)>& read, std::string& body)
      : max_bytes_(max_bytes), read_(read), body_(body) {}

  std::optional<ApiError> take(int64_t n) {
    if (n > max_bytes_ - static_cast<int64_t>(body_.size())) return too_large(max_bytes_);
    while (n > 0) {
      const auto before = body_.size();
      const int64_t piece = std::min(n, kPieceBytes);
      body_.resize(before + static_cast<size_t>(piece));
      const int64_t got = read_(body_.data() + before, piece);
      body_.resize(before + static_cast<size_t>(std::max<int64_t>(got, 0)));
      if (got <= 0) return bad_body(str("the request's body ended, or came too slowly, ", n, " bytes early"));
      n -= got;
    }
    return std::nullopt;
  }

  // A line that ends with CR LF.
  std::optional<ApiError> line(std::string& text) {
    text.clear();
    char c = 0;
    while (static_cast<int64_t>(text.size()) <= kMaxLineBytes && read_(&c, 1) == 1) {
      if (c != '\n') {
        text += c;
        continue;
      }
      if (text.empty() || text.back() != '\r') break;
      text.pop_back();
      return std::nullopt;
    }
    return bad_body("the request's body: expected a chunk's size and CR LF");
  }

  std::optional<ApiError> chunks() {
    std::string text;
    while (true) {
      if (auto error = line(text)) return error;
      uint64_t size = 0;
      // Extensions after ';' mean nothing to us.
      if (!parse_digits(std::string_view(text).substr(0, text.find(';')), 16, size)) {
        return bad_body("the request's body: expected a chunk's size in hexadecimal digits");
      }
      if (size > static_cast<uint64_t>(max_bytes_)) return too_large(max_bytes_);
      if (size == 0) break;
      if (auto error = take(static_cast<int64_t>(size))) return error;
      char end[2] = {};
      if (read_(&end[0], 1) != 1 || end[0] != '\r' || read_(&end[1], 1) != 1 || end[1] != '\n') {
        return bad_body("the request's body: expected CR LF after a chunk");
      }
    }
    for (int n = 0; n < kMaxTrailers; ++n) {
      if (auto error = line(text)) return error;
      if (text.empty()) return std::nullopt;
    }
    return bad_body(str("the request's body: expected at most ", kMaxTrailers, " trailers"));
  }

 private:
  int64_t max_bytes_;
  const std::function<int64_t(char*, int64_t)>& read_;
  std::string& body_;
};

}  // namespace

BodyFraming read_framing(const RequestHead& head, int64_t max_bytes, std::optional<ApiError>& error) {
  BodyFraming framing;
  const int n_lengths = head.count("Content-Length"), n_codings = head.count("Transfer-Encoding");
  if (n_lengths > 1 || n_codings > 1 || (n_lengths > 0 && n_codings > 0)) {
    error = bad_body("expected one of Content-Length and Transfer-Encoding, once");
  } else if (n_codings > 0) {
    framing.chunked = equal_fold(*head.header("Transfer-Encoding"), "chunked");
    if (!framing.chunked) error = bad_body("Transfer-Encoding: expected chunked");
  } else if (n_lengths > 0) {
    uint64_t length = 0;
    if (!parse_digits(*head.header("Content-Length"), 10, length)) {
      error = bad_body("Content-Length: expected a number");
    } else if (length > static_cast<uint64_t>(max_bytes)) {
      error = too_large(max_bytes);
    } else {
      framing.length = static_cast<int64_t>(length);
    }
  }
  return framing;
}

std::optional<ApiError> read_body(const BodyFraming& framing, int64_t max_bytes,
                                  const std::function<int64_t(char*, int64_t)>& read, std::string& body) {
  BodyReader reader(max_bytes, read, body);
  return framing.chunked ? reader.chunks() : reader.take(framing.length);
}

}  // namespace loci::server
