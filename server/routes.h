// The endpoints: which method and path is answered by which function. One line each in routes.cc.
#pragma once
#include <span>
#include <string_view>

#include "server/http/exchange.h"
#include "server/service.h"

namespace loci::server {

struct Route {
  std::string_view method;
  std::string_view path;
  void (*serve)(Service&, Exchange&);  // throws Error for what becomes an error of the answer
  ErrorShape errors = ErrorShape::kOpenAi;
  bool needs_key = true;
};

std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;
  bool other_method = false;  // the path exists, with another method
};
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace loci::server
