// What tests of speculation share: a target and a draft model, a sink that keeps all of an answer, requests.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/engine_helpers.h"

namespace loci::test {

struct ModelPair {
  TinyModel target, draft;
};

// A draft model of another shape and other weights: its drafts are mostly wrong.
inline ModelPair unlike() {
  ModelPair pair;
  pair.draft.n_layers = 1;
  pair.draft.dim = 32;
  pair.draft.n_heads = 2;
  pair.draft.n_kv_heads = 1;
  pair.draft.seed = 7;
  return pair;
}

// Weights almost like the target's: right more often than not, and wrong often enough.
inline ModelPair alike() {
  ModelPair pair;
  pair.draft.edit = [](std::string_view, std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); i += 7) values[i] *= 1.3f;
  };
  return pair;
}

inline std::unique_ptr<Engine> load_pair(const ModelPair& pair, const std::function<void(EngineConfig&)>& change = {}) {
  EngineConfig config = tiny_config(tiny_model_file(pair.target));
  config.draft_model_path = tiny_model_file(pair.draft);
  if (change) change(config);
  return load_engine(config, "cpu");
}

struct Result : TokenSink {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<float> logprobs;
  RequestStats stats;
  bool finished = false;

  void on_token(int32_t token, std::string_view shown, std::span<const TokenProb> top) override {
    tokens.push_back(token);
    text += shown;
    for (const TokenProb& t : top) logprobs.push_back(t.logprob);
  }
  void on_finish(std::string_view shown, const RequestStats& s) override {
    text += shown;
    stats = s;
    finished = true;
  }
};

inline Speculation fixed(SpeculationMode mode, int max_tokens, int width = 1) {
  Speculation params;
  params.mode = mode;
  params.max_tokens = max_tokens;
  params.width = width;
  params.adaptive = false;
  return params;
}

inline Request request_for(std::vector<int32_t> prompt, int64_t max_tokens, Result& result,
                           const Speculation& speculation) {
  Request request = greedy(std::move(prompt), max_tokens, result);
  request.speculation = speculation;
  request.n_top_logprobs = 3;
  return request;
}

}  // namespace loci::test
