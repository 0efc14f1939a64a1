// loci models: the aliases that -m takes, and which of them are on this machine.
#include <sys/stat.h>

#include <iostream>

#include "main/cli.h"
#include "main/commands.h"
#include "main/model_cache.h"

namespace loci::cli {

int cmd_models(const std::vector<std::string>& args) {
  const auto app = make_app("models", "Lists the models that have a short name for -m.");
  if (!parse(*app, args)) return 0;
  const std::string dir = model_cache_dir();
  std::cout << "models in " << dir << ":\n";
  for (const ModelAlias& model : model_aliases()) {
    struct stat info {};
    const bool present = stat((dir + "/" + std::string(model.file)).c_str(), &info) == 0;
    std::string alias(model.alias), size = present ? bytes_text(static_cast<double>(info.st_size)) : "absent";
    alias.resize(20, ' ');
    size.resize(12, ' ');
    std::cout << "  " << alias << size << model.what << '\n';
  }
  std::cout << "'scripts/fetch_model.sh ALIAS' fetches one.\n";
  return 0;
}

}  // namespace loci::cli
