#include "engine/spec/draft_model.h"

#include <algorithm>

#include "kernels/error.h"

namespace loci {
namespace {

constexpr int kMaxPadding = 128;  // ids by which vocabularies may differ in length: rows added for alignment

}  // namespace

std::string vocabulary_difference(const Tokenizer& target, const Tokenizer& draft) {
  if (target.model_name() != draft.model_name()) {
    return str("its tokenizer is '", draft.model_name(), "', the target's '", target.model_name(), "'");
  }
  const int32_t n = std::min(target.vocab_size(), draft.vocab_size());
  for (int32_t id = 0; id < n; ++id) {
    if (target.token_text(id) == draft.token_text(id)) continue;
    return str("its token ", id, " is '", draft.token_text(id), "', the target's '", target.token_text(id), "'");
  }
  if (std::max(target.vocab_size(), draft.vocab_size()) - n > kMaxPadding) {
    return str("it has ", draft.vocab_size(), " tokens, the target ", target.vocab_size());
  }
  return "";
}

std::unique_ptr<DraftModel> open_draft_model(const std::string& path, const Tokenizer& target) {
  auto model = std::make_unique<DraftModel>();
  model->file = std::make_unique<gguf::File>(gguf::File::open(path));
  model->arch = read_arch(model->file->metadata());
  check_weights(*model->file, model->arch);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_metadata(model->file->metadata());
  if (const std::string difference = vocabulary_difference(target, *tokenizer); !difference.empty()) {
    fail(ErrorKind::kInvalidInput, path, ": cannot draft for this model: the vocabularies differ: ", difference);
  }
  return model;
}

void load_draft_weights(DraftModel& model, const EngineConfig& config, Backend& backend, const LoadProgress& progress) {
  model.weights = load_weights(*model.file, model.arch, backend, {.keep_mapped = config.use_mmap}, progress);
}

}  // namespace loci
