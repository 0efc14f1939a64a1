// POST /infill: code between a prefix and a suffix.
#include <algorithm>

#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"
#include "server/endpoints/native_format.h"

namespace loci::server {
namespace {

using Tokens = std::vector<int32_t>;

void append(Tokens& to, std::span<const int32_t> more) { to.insert(to.end(), more.begin(), more.end()); }

// Other files of the project, for context: their last `most` tokens.
Tokens extra_tokens(const Json& extra, const Tokenizer& tokenizer, size_t most) {
  const SpecialTokens& special = tokenizer.special();
  Tokens tokens;
  if (special.fim_rep >= 0) {
    tokens.push_back(special.fim_rep);
    append(tokens, tokenizer.encode("myproject\n", false, false));
  }
  for (const Json& file : extra) {
    const BodyFields fields(file);
    const std::string name = fields.string("filename").value_or("tmp");
    if (special.fim_sep >= 0) {
      tokens.push_back(special.fim_sep);
      append(tokens, tokenizer.encode(name + "\n", false, false));
    } else {
      append(tokens, tokenizer.encode("\n\n--- snippet ---\n\n", false, false));
    }
    append(tokens, tokenizer.encode(fields.string("text").value_or(""), false, false));
  }
  if (special.fim_sep >= 0) {
    tokens.push_back(special.fim_sep);
    append(tokens, tokenizer.encode("filename\n", false, false));
  }
  tokens.erase(tokens.begin(), tokens.end() - static_cast<ptrdiff_t>(std::min(most, tokens.size())));
  return tokens;
}

Tokens infill_prompt(const BodyFields& body, Service& service) {
  const Tokenizer& tokenizer = service.tokenizer();
  const SpecialTokens& special = tokenizer.special();
  if (special.fim_pre < 0 || special.fim_suf < 0 || special.fim_mid < 0) {
    fail(ErrorKind::kUnsupported, "the model has no tokens for infilling (prefix, suffix, middle)");
  }
  const auto text = [&](const char* name) {
    const auto value = body.string(name);
    return value ? tokenizer.encode(*value, false, false) : Tokens();
  };
  if (body.find("input_prefix") == nullptr) fail(ErrorKind::kInvalidInput, "'input_prefix' is required");
  if (body.find("input_suffix") == nullptr) fail(ErrorKind::kInvalidInput, "'input_suffix' is required");
  Tokens prefix = text("input_prefix"), suffix = text("input_suffix");
  const Tokens prompt = text("prompt");
  // Three quarters of a batch for what is before, one for what is behind and the prompt.
  const auto batch = static_cast<size_t>(service.config().n_batch);
  const size_t most_suffix = batch / 4 > 2 + prompt.size() ? batch / 4 - 2 - prompt.size() : 0;
  prefix.erase(prefix.begin(), prefix.end() - static_cast<ptrdiff_t>(std::min(prefix.size(), 3 * (batch / 4))));
  suffix.resize(std::min(suffix.size(), most_suffix));

  Tokens tokens;
  if (special.add_bos && special.bos >= 0) tokens.push_back(special.bos);
  if (const Json* extra = body.list("input_extra"); extra != nullptr && !extra->empty()) {
    const int64_t n_predict = std::max<int64_t>(0, body.integer("n_predict").value_or(0));
    const int64_t room = service.defaults().n_ctx - static_cast<int64_t>(batch) - 2 * n_predict;
    append(tokens, extra_tokens(*extra, tokenizer, static_cast<size_t>(std::max<int64_t>(0, room))));
  }
  tokens.push_back(special.fim_pre);
  append(tokens, prefix);
  tokens.push_back(special.fim_suf);
  append(tokens, suffix);
  tokens.push_back(special.fim_mid);
  append(tokens, prompt);
  return tokens;
}

}  // namespace

void serve_infill(Service& service, Exchange& exchange) {
  Json json = exchange.json();
  json["prompt"] = infill_prompt(BodyFields(json), service);
  run_native_completion(service, exchange, json);
}

}  // namespace loci::server
