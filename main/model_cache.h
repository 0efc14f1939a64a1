// The model cache: where fetched models lie and the aliases that name them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace loci::cli {

struct ModelAlias {
  std::string_view alias;
  std::string_view file;
  std::string_view what;
};

// The known aliases; the first is the default model.
std::span<const ModelAlias> model_aliases();

// $LOCI_MODELS, or $XDG_CACHE_HOME/loci/models, or ~/.cache/loci/models.
std::string model_cache_dir();

// Path of a model for -m: an existing file as it is; an alias or "" (the default model) from the model cache. Throws
// Error(kNotFound) saying how to fetch it.
std::string resolve_model(const std::string& name);

}  // namespace loci::cli
