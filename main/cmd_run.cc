#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_run(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "run: not built yet"); }

}  // namespace loci::cli
