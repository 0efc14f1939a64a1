#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_perplexity(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "perplexity: not built yet"); }

}  // namespace loci::cli
