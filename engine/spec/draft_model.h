// DraftModel: a smaller model beside the target, loaded and checked to share its vocabulary.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "engine/config.h"
#include "engine/model/arch.h"
#include "engine/model/weights.h"
#include "engine/text/tokenizer.h"
#include "gguf/gguf.h"
#include "kernels/backend.h"

namespace loci {

struct DraftModel {
  std::unique_ptr<gguf::File> file;
  ArchSpec arch;
  Weights weights;
};

// What keeps `draft` from drafting for `target`: names the first difference of the vocabularies. Empty: nothing.
std::string vocabulary_difference(const Tokenizer& target, const Tokenizer& draft);

// Opens and checks the file; its weights are not loaded yet. Throws Error naming it.
std::unique_ptr<DraftModel> open_draft_model(const std::string& path, const Tokenizer& target);
void load_draft_weights(DraftModel& model, const EngineConfig& config, Backend& backend, const LoadProgress& progress);

}  // namespace loci
