#include "server/speculation_fields.h"

#include <algorithm>

#include "engine/spec/mode_names.h"

namespace loci::server {
namespace {

SpeculationMode read_mode(const std::string& list, bool has_draft_model) {
  constexpr const char* kName = "speculative.type";
  const NamedSpeculation found = read_speculation_names(list);
  if (found.unknown) {
    reject_field(kName, "expected none, ngram, draft or auto, found '", *found.unknown, "'");
  }
  if (found.not_done) refuse_field(kName, *found.not_done, ", only n-grams or a whole model draft");
  if (found.mode == SpeculationMode::kDraft && !has_draft_model) {
    reject_field(kName, "draft: expected a draft model to be loaded, found none");
  }
  return found.mode;
}

}  // namespace

Speculation read_speculation(const BodyFields& body, const Speculation& defaults, bool has_draft_model) {
  Speculation params = defaults;
  if (const auto list = body.string("speculative.type")) params.mode = read_mode(*list, has_draft_model);
  if (const auto n = body.integer("speculative.n_max", 0, kMaxDrafts)) params.max_tokens = static_cast<int>(*n);
  if (const auto n = body.integer("speculative.n_min", 0, kMaxDrafts)) {
    params.min_tokens = static_cast<int>(*n);
    if (params.min_tokens > params.max_tokens) {
      reject_field("speculative.n_min", "expected at most speculative.n_max, ", params.max_tokens, ", found ", *n);
    }
  }
  params.min_tokens = std::min(params.min_tokens, params.max_tokens);  // the default one gives way
  if (const auto p = body.number("speculative.p_min")) {
    if (!(*p >= 0 && *p <= 1)) reject_field("speculative.p_min", "expected a number from 0 to 1, found ", *p);
    params.p_min = static_cast<float>(*p);
  }
  if (const auto width = body.integer("speculative.tree", 1, kMaxDraftWidth)) params.width = static_cast<int>(*width);
  params.adaptive = body.boolean("speculative.adaptive").value_or(params.adaptive);
  params.shared_ngrams = body.boolean("speculative.shared").value_or(params.shared_ngrams);
  return params;
}

}  // namespace loci::server
