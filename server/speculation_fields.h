// Fields of a body that steer drafting: speculative.type, speculative.n_max, ... They change speed, never the answer.
#pragma once
#include "engine/request.h"
#include "server/body_fields.h"

namespace loci::server {

// Throws Error naming the field. `has_draft_model`: one is loaded.
Speculation read_speculation(const BodyFields& body, const Speculation& defaults, bool has_draft_model);

}  // namespace loci::server
