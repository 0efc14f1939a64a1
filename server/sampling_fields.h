// The sampling fields of a request's body (names of OpenAI's and llama.cpp's APIs; docs/sampling.md says what they do).
#pragma once
#include "engine/sampling/sampler.h"
#include "engine/text/tokenizer.h"
#include "server/body_fields.h"

namespace loci::server {

// `defaults` with what the body sets. Throws Error naming the field.
SamplingParams read_sampling(const BodyFields& body, const SamplingParams& defaults, const Tokenizer& tokenizer);

// The fields with their values, as GET /props and answers of /completion show them.
Json sampling_json(const SamplingParams& params);

}  // namespace loci::server
