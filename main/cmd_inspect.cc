#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_inspect(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "inspect: not built yet"); }

}  // namespace loci::cli
