// The sampling fields of a request's body (names of OpenAI's and llama.cpp's APIs; docs/sampling.md says what they do).
#pragma once
#include "engine/sampling/sampler.h"
#include "engine/text/tokenizer.h"
#include "server/body_fields.h"

namespace loci::server {

// `defaults` with what the body sets. Throws Error naming the field.
SamplingParams read_sampling(const BodyFields& body, const SamplingParams& defaults, const Tokenizer& tokenizer);

}  // namespace loci::server
