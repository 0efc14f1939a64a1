#include "main/commands.h"

#include "kernels/error.h"

namespace loci::cli {

int cmd_chat(const std::vector<std::string>&) { fail(ErrorKind::kUnsupported, "chat: not built yet"); }

}  // namespace loci::cli
