// ToolRequest: the fields of a chat request that are about tools.
#pragma once
#include "server/body_fields.h"
#include "server/tools/dialect.h"
#include "server/tools/tool_set.h"

namespace loci::server {

struct ToolRequest {
  ToolSet tools;  // empty: none are offered to the model
  bool parallel_calls = true;
};

// Reads tools, tool_choice and parallel_tool_calls. `dialect`: of the model, nullptr when it has none. Throws Error
// that names the field: kInvalidInput, or kUnsupported where calls would have to be forced or could not be read.
ToolRequest read_tool_request(const BodyFields& body, const Dialect* dialect);

}  // namespace loci::server
