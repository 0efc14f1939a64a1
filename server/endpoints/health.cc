// GET /, /health: whether the server is up.
#include "server/endpoints/endpoints.h"

namespace loci::server {

void serve_root(Service& service, Exchange& exchange) {
  exchange.send(200, "text/plain; charset=utf-8",
                str("loci is running ", service.model_name(), "; endpoints: docs/server.md\n"));
}

void serve_health(Service&, Exchange& exchange) {
  Json body;
  body["status"] = "ok";
  exchange.send_json(body);
}

}  // namespace loci::server
