// The request of every benchmark: the likeliest token each time, to the last one asked for.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace loci::cli {

inline Request bench_request(std::vector<int32_t> prompt, int64_t max_tokens, TokenSink& sink) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.samplers.clear();
  request.sink = &sink;
  return request;
}

}  // namespace loci::cli
