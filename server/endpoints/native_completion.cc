// POST /completion: llama-server's own shape.
#include <algorithm>

#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"
#include "server/endpoints/native_format.h"
#include "server/sampling_fields.h"

namespace loci::server {
namespace {

// Fields that only this dialect has.
struct NativeFields {
  bool return_tokens = false;
  std::vector<std::string> response_fields;  // paths into the final object; none: all of it
};

NativeFields read_native_fields(const BodyFields& body) {
  NativeFields fields;
  fields.return_tokens = body.boolean("return_tokens").value_or(false);
  if (const Json* paths = body.list("response_fields")) {
    for (const Json& path : *paths) {
      if (!path.is_string()) reject_field("response_fields", "expected strings, found ", excerpt(path));
      fields.response_fields.push_back(path.get<std::string>());
    }
  }
  return fields;
}

// "generation_settings/n_predict" of `from`, set in `to` as "n_predict". Unknown paths are left out.
void pick(const Json& from, const std::string& path, Json& to) {
  const Json* at = &from;
  std::string name;
  for (size_t start = 0; start <= path.size();) {
    const size_t slash = std::min(path.find('/', start), path.size());
    name = path.substr(start, slash - start);
    if (!at->is_object() || !at->contains(name)) return;
    at = &(*at)[name];
    start = slash + 1;
  }
  to[name] = *at;
}

const char* stop_type(const RequestStats& stats) {
  switch (stats.reason) {
    case FinishReason::kEndToken:
      return "eos";
    case FinishReason::kStopString:
      return "word";
    case FinishReason::kLimit:
    case FinishReason::kContextFull:
    case FinishReason::kDeadline:
      return "limit";
    case FinishReason::kCancelled:
    case FinishReason::kError:
      break;
  }
  return "none";
}

class NativeFormat : public AnswerFormat {
 public:
  explicit NativeFormat(NativeFields fields) : fields_(std::move(fields)) {}

  Json whole(const AnswerView& a) override {
    Json all = Json::array();
    for (size_t i = 0; i < a.choices.size(); ++i) {
      Json one = final_object(a, i);
      one["content"] = a.choices[i]->text();
      if (fields_.return_tokens) one["tokens"] = a.choices[i]->tokens();
      put_records(one, a, a.choices[i]->records());
      all.push_back(filtered(std::move(one)));
    }
    return all.size() == 1 ? all[0] : all;
  }

  void progress(EventStream& out, const AnswerView& a, size_t choice, const Json& progress) override {
    Json chunk = start_chunk(a, choice);
    chunk["prompt_progress"] = progress;
    out.data(chunk);
  }

  void delta(EventStream& out, const AnswerView& a, const ChoiceDelta& delta) override {
    if (delta.text.empty()) return;
    Json chunk = start_chunk(a, delta.choice);
    chunk["content"] = delta.text;
    chunk["tokens"] = delta.tokens;
    put_records(chunk, a, delta.records);
    if (a.request.timings_per_token) chunk["timings"] = timings_json(a.request, a.choices);
    out.data(chunk);
  }

  void finish(EventStream& out, const AnswerView& a, size_t choice) override {
    out.data(filtered(final_object(a, choice)));
  }
  void end(EventStream&, const AnswerView&) override {}

 private:
  Json start_chunk(const AnswerView& a, size_t choice) const {
    Json chunk;
    chunk["index"] = choice;
    chunk["content"] = "";
    chunk["tokens"] = Json::array();
    chunk["stop"] = false;
    chunk["id_slot"] = -1;
    chunk["tokens_predicted"] = a.choices[choice]->n_tokens();
    chunk["tokens_evaluated"] = a.request.prompts[prompt_of(a, choice)].tokens.size();
    return chunk;
  }

  static size_t prompt_of(const AnswerView& a, size_t choice) { return choice / static_cast<size_t>(a.request.n); }

  void put_records(Json& out, const AnswerView& a, std::span<const TokenRecord> records) const {
    if (a.request.logprobs) out["completion_probabilities"] = logprobs_json(records, a.tokenizer)["content"];
  }

  Json final_object(const AnswerView& a, size_t choice) const {
    const CompletionRequest& request = a.request;
    const ChoiceRecorder* const alone[] = {a.choices[choice]};
    const RequestStats& stats = alone[0]->stats();
    Json out = start_chunk(a, choice);
    out["stop"] = true;
    out["model"] = a.stamp.model;
    Json& settings = out["generation_settings"];
    settings = sampling_json(request.sampling);
    settings["seed"] = stats.seed;
    settings["n_predict"] = request.max_tokens;
    settings["stop"] = request.stops;
    settings["stream"] = request.stream;
    settings["n_probs"] = request.top_logprobs;
    out["prompt"] = a.tokenizer.decode(request.prompts[prompt_of(a, choice)].tokens, true);
    out["has_new_line"] = alone[0]->text().find('\n') != std::string::npos;
    out["truncated"] = stats.reason == FinishReason::kContextFull;
    out["stop_type"] = stop_type(stats);
    out["stopping_word"] = stats.stop_string;
    out["tokens_cached"] = stats.n_prompt + stats.n_predicted;
    out["timings"] = timings_of_choice(*alone[0]);
    return out;
  }

  Json filtered(Json all) const {
    if (fields_.response_fields.empty()) return all;
    Json out = Json::object();
    for (const std::string& path : fields_.response_fields) pick(all, path, out);
    return out;
  }

  NativeFields fields_;
};

}  // namespace

void run_native_completion(Service& service, Exchange& exchange, const Json& body) {
  CompletionRequest request = parse_completion(Endpoint::kCompletions, body, service.defaults());
  run_answer(service, exchange, std::move(request), "cmpl-",
             std::make_unique<NativeFormat>(read_native_fields(BodyFields(body))));
}

void serve_native_completion(Service& service, Exchange& exchange) {
  run_native_completion(service, exchange, exchange.json());
}

}  // namespace loci::server
