// GET /slots: what is being worked on.
#include <algorithm>

#include "server/endpoints/endpoints.h"

namespace loci::server {

void serve_slots(Service& service, Exchange& exchange) {
  const std::map<int, LiveRequest> live = service.live().all();
  const int n_slots = service.config().max_sequences;
  Json out = Json::array();
  // Requests beyond the number of slots wait.
  const int n_shown = live.empty() ? n_slots : std::max(n_slots, live.rbegin()->first + 1);
  int n_busy = 0;
  for (int i = 0; i < n_shown; ++i) {
    const auto it = live.find(i);
    if (it == live.end() && i >= n_slots) continue;
    Json slot;
    slot["id"] = i;
    slot["n_ctx"] = service.defaults().n_ctx;
    slot["speculative"] = it != live.end() && it->second.speculative;
    slot["is_processing"] = it != live.end();
    if (it != live.end()) {
      const LiveRequest& request = it->second;
      ++n_busy;
      slot["id_task"] = request.task;
      slot["n_prompt_tokens"] = request.n_prompt;
      slot["n_prompt_tokens_processed"] = request.n_prompt_done;
      slot["n_prompt_tokens_cache"] = request.n_prompt_cached;
      Json next;
      next["has_next_token"] = true;
      next["n_remain"] = request.n_remain;
      next["n_decoded"] = request.n_decoded;
      slot["next_token"] = Json::array({std::move(next)});
    }
    out.push_back(std::move(slot));
  }
  if (exchange.query("fail_on_no_slot").value_or("") == "1" && n_busy >= n_slots) {
    return exchange.send_error(api_error(503, "unavailable_error", "no slot available"));
  }
  exchange.send_json(out);
}

}  // namespace loci::server
