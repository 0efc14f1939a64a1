#include "server/http/gatekeeper.h"

#include <algorithm>

namespace loci::server {
namespace {

// What an Origin header may hold and be sent back.
bool is_plain(std::string_view origin) {
  return std::all_of(origin.begin(), origin.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(":/.-_[]").find(c) != std::string_view::npos;
  });
}

bool is_port(std::string_view text) {
  return text.size() >= 2 && text.size() <= 6 && text.front() == ':' &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool equal_secret(std::string_view given, std::string_view secret) {
  size_t different = given.size() ^ secret.size();
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return different == 0;
}

bool is_local_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.substr(0, scheme.size()) != scheme) continue;
    const std::string_view rest = origin.substr(scheme.size());
    for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
      if (rest.substr(0, host.size()) != host) continue;
      const std::string_view port = rest.substr(host.size());
      if (port.empty() || is_port(port)) return true;
    }
  }
  return false;
}

Gatekeeper::Gatekeeper(AccessRules rules) : rules_(std::move(rules)) {
  std::string_view rest = rules_.cors_origins;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    origins_.emplace_back(strip_blanks(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

bool Gatekeeper::has_key(const RequestHead& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given[2];
  if (const auto value = head.header("Authorization")) {
    if (equal_fold(value->substr(0, kBearer.size()), kBearer)) given[0] = strip_blanks(value->substr(kBearer.size()));
  }
  if (const auto value = head.header("X-Api-Key")) given[1] = *value;
  bool found = false;
  for (const std::string_view key : given) {
    for (const std::string& known : rules_.api_keys) found = equal_secret(key, known) || found;
  }
  return found;
}

std::optional<std::string> Gatekeeper::allowed_origin(const RequestHead& head) const {
  const auto origin = head.header("Origin");
  if (!origin) return std::nullopt;
  if (rules_.cors_origins == "*" && !rules_.cors_credentials) return "*";
  if (!is_plain(*origin)) return std::nullopt;
  const bool allowed = origins_.empty() ? is_local_origin(*origin)
                                        : std::any_of(origins_.begin(), origins_.end(),
                                                      [&](const std::string& o) { return o == "*" || o == *origin; });
  return allowed ? std::optional<std::string>(*origin) : std::nullopt;
}

}  // namespace loci::server
