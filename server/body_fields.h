// BodyFields: typed look-ups in the JSON body of a request. A null counts as absent, unknown fields are ignored. What
// is wrong throws Error(kInvalidInput) "Field 'top_k': expected ..., found ...".
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/error.h"

namespace loci::server {

using Json = nlohmann::ordered_json;

template <typename... Parts>
[[noreturn]] void reject_field(std::string_view name, Parts&&... parts) {
  fail(ErrorKind::kInvalidInput, "Field '", name, "': ", std::forward<Parts>(parts)...);
}
// For a well-formed field that asks for what this build does not do.
template <typename... Parts>
[[noreturn]] void refuse_field(std::string_view name, Parts&&... parts) {
  fail(ErrorKind::kUnsupported, "Field '", name, "': not supported by this build: ", std::forward<Parts>(parts)...);
}

// A value for a message: at most 80 bytes of its JSON, cut between characters.
std::string excerpt(const Json& value);

class BodyFields {
 public:
  // Throws Error when `body` is no object. Keeps a reference.
  explicit BodyFields(const Json& body);

  const Json* find(std::string_view name) const;  // nullptr when absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;  // 64.0 counts as 64
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  const Json* list(std::string_view name) const;

 private:
  const Json* body_;
};

}  // namespace loci::server
