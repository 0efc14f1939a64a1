// Error: the one exception type of the project. Thrown for bad files, bad flags, unsupported models and
// failed devices; caught in main() and, later, in the request handler. Also the small message builder.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace loci {

enum class ErrorKind {
  kInvalidInput,  // bad flag, bad file, bad request: the caller can mend it
  kNotFound,      // a named file, model or alias does not exist
  kUnsupported,   // well-formed, but this build does not do it
  kOutOfMemory,   // a start-up allocation failed or a budget is too small
  kInternal,      // device failure and the like
};

// A message names the thing, the expectation and the finding, on one line.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Joins printable parts into one string: str("layer ", 3, ": ", name).
template <typename... Parts>
std::string str(Parts&&... parts) {
  std::ostringstream out;
  (out << ... << std::forward<Parts>(parts));
  return out.str();
}

// Throws Error(kind, joined parts).
template <typename... Parts>
[[noreturn]] void fail(ErrorKind kind, Parts&&... parts) {
  throw Error(kind, str(std::forward<Parts>(parts)...));
}

}  // namespace loci
