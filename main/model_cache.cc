#include "main/model_cache.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kernels/error.h"

namespace loci::cli {
namespace {

constexpr ModelAlias kAliases[] = {
    {"smollm2", "smollm2-135m-instruct-q4_1.gguf", "SmolLM2 135M Instruct, Q4_1 (the default)"},
    {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf", "Gemma 3 270M (base model), Q4_K_M"},
    {"qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Qwen2.5 Coder 0.5B Instruct, Q4_K_M"},
    {"qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Qwen2.5 Coder 1.5B Instruct, Q4_K_M"},
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::span<const ModelAlias> model_aliases() { return kAliases; }

std::string model_cache_dir() {
  if (const std::string dir = environment("LOCI_MODELS"); !dir.empty()) return dir;
  if (const std::string dir = environment("XDG_CACHE_HOME"); !dir.empty()) return dir + "/loci/models";
  return environment("HOME") + "/.cache/loci/models";
}

std::string resolve_model(const std::string& name) {
  const std::string wanted = name.empty() ? std::string(kAliases[0].alias) : name;
  struct stat info {};
  if (!name.empty() && stat(name.c_str(), &info) == 0) return name;  // what it is, the reader of the file says
  const int path_errno = errno;
  for (const ModelAlias& model : kAliases) {
    if (model.alias != wanted) continue;
    const std::string path = model_cache_dir() + "/" + std::string(model.file);
    if (stat(path.c_str(), &info) == 0) return path;
    fail(ErrorKind::kNotFound, "model ", wanted, name.empty() ? " (the default)" : "", ": ", path, ": ",
         std::strerror(errno), "; 'scripts/fetch_model.sh ", wanted, "' fetches it");
  }
  fail(ErrorKind::kNotFound, name, ": ", std::strerror(path_errno),
       name.find('/') == std::string::npos && name.find(".gguf") == std::string::npos
           ? "; it is no alias of a model either ('loci models' lists them)"
           : "");
}

}  // namespace loci::cli
