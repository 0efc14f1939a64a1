// What `loci inspect` says of a GGUF file, as JSON: gathered here, printed as a page by cmd_inspect.cc.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/config.h"
#include "gguf/gguf.h"

namespace loci::cli {

// Everything that can be told even when the model would not load; then "loadable" is false and "error" says why.
// `n_ctx`: tokens that the memory estimate is made for, 0 for the trained length.
nlohmann::ordered_json inspect_report(const gguf::File& file, int64_t n_ctx, const KvConfig& kv);

}  // namespace loci::cli
