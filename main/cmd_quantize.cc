#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_quantize(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "quantize: not built yet"); }

}  // namespace loci::cli
