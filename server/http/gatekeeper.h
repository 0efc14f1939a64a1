// Gatekeeper: who may ask. API keys, and which web pages may read answers (CORS).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/request_head.h"

namespace loci::server {

struct AccessRules {
  std::vector<std::string> api_keys;  // none: everybody may ask
  std::string cors_origins;           // "": pages of this machine; "*": all; or a list with commas
  std::string cors_methods = "GET, POST, DELETE, OPTIONS";
  std::string cors_headers = "*";
  bool cors_credentials = false;
};

// Compares in time that depends on the length of `given` alone.
bool equal_secret(std::string_view given, std::string_view secret);

// http(s)://localhost, 127.0.0.1 or [::1], with any port or none.
bool is_local_origin(std::string_view origin);

class Gatekeeper {
 public:
  explicit Gatekeeper(AccessRules rules);

  // Whether the request has one of the keys, as "Authorization: Bearer KEY" or "X-Api-Key: KEY".
  bool has_key(const RequestHead& head) const;
  bool open() const { return rules_.api_keys.empty(); }
  // The value of Access-Control-Allow-Origin, if the page that asks may read the answer.
  std::optional<std::string> allowed_origin(const RequestHead& head) const;
  const AccessRules& rules() const { return rules_; }

 private:
  AccessRules rules_;
  std::vector<std::string> origins_;
};

}  // namespace loci::server
