// The drafters of an engine, in order of preference among equals.
#pragma once
#include <memory>
#include <vector>

#include "engine/spec/draft_model.h"
#include "engine/spec/drafter.h"

namespace loci {

// What drafters are made of. References outlive them.
struct DrafterParts {
  const KvManager& kv;
  Backend& backend;
  const Weights& target;
  int64_t target_vocab_size;
  int64_t draft_vocab;                      // EngineConfig::draft_vocab
  int max_rows;                             // of one pass
  std::unique_ptr<DraftModel> draft_model;  // nullptr: none
  size_t draft_layer;                       // the first of `kv` that is the draft model's
};

std::vector<std::unique_ptr<Drafter>> make_drafters(DrafterParts parts);

}  // namespace loci
