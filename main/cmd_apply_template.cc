#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_apply_template(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "apply_template: not built yet"); }

}  // namespace loci::cli
