#include "engine/spec/drafter_list.h"

#include <utility>

#include "engine/spec/model_drafter.h"
#include "engine/spec/ngram_drafter.h"

namespace loci {

std::vector<std::unique_ptr<Drafter>> make_drafters(DrafterParts parts) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<NgramDrafter>());
  if (parts.draft_model != nullptr) {
    const double relative_cost =
        static_cast<double>(parts.draft_model->weights.n_params) / static_cast<double>(parts.target.n_params);
    drafters.push_back(std::make_unique<ModelDrafter>(std::move(parts.draft_model), parts.kv, parts.draft_layer,
                                                      parts.backend, parts.max_rows, parts.target_vocab_size,
                                                      parts.draft_vocab, relative_cost));
  }
  return drafters;
}

}  // namespace loci
