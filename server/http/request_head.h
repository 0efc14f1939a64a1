// RequestHead: request line and headers as they came. cpp-httplib decodes percent codes and '+' in header values; what
// is compared with secrets or sent back is read from here instead.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace loci::server {

class RequestHead {
 public:
  RequestHead() = default;
  // `bytes`: all up to and with the empty line.
  explicit RequestHead(std::string bytes);

  std::string_view method() const { return method_; }
  std::string_view path() const { return path_; }  // without the query, as sent
  // The first header of that name (case does not matter), without white space around its value.
  std::optional<std::string_view> header(std::string_view name) const;
  int count(std::string_view name) const;

 private:
  template <typename Visit>
  void for_each_header(const Visit& visit) const;
  std::string bytes_;
  std::string method_, path_;
};

// ASCII letters without regard to case.
bool equal_fold(std::string_view a, std::string_view b);
// Without blanks and tabs at both ends.
std::string_view strip_blanks(std::string_view text);

}  // namespace loci::server
