#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_tokenize(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "tokenize: not built yet"); }

}  // namespace loci::cli
