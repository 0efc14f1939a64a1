#include "server/tools/tool_request.h"

namespace loci::server {
namespace {

constexpr size_t kMaxTools = 1024;

void check_tools(const Json& tools) {
  if (tools.size() > kMaxTools) reject_field("tools", "expected at most ", kMaxTools, ", found ", tools.size());
  size_t i = 0;
  for (const Json& tool : tools) {
    const std::string where = str("tools[", i++, "]");
    if (!tool.is_object()) reject_field(where, "expected an object, found ", excerpt(tool));
    const BodyFields fields(tool);
    if (const auto type = fields.string("type"); type && *type != "function") {
      refuse_field(where + ".type", "'", *type, "', only 'function'");
    }
    const Json* function = fields.find("function");
    if (function == nullptr || !function->is_object()) {
      reject_field(where, "expected an object with a 'function', found ", excerpt(tool));
    }
    const Json* name = BodyFields(*function).find("name");
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty()) {
      reject_field(where + ".function.name", "expected a name, found ", name == nullptr ? "none" : excerpt(*name));
    }
    const Json* parameters = BodyFields(*function).find("parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      reject_field(where + ".function.parameters", "expected a JSON schema, found ", excerpt(*parameters));
    }
  }
}

// Refuses what cannot be done: a call that must be made.
void check_choice(const BodyFields& body, const ToolSet& tools) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "required") refuse_field("tool_choice", "'required': calls cannot be forced, use 'auto'");
  const Json* function = choice->is_object() ? BodyFields(*choice).find("function") : nullptr;
  const Json* name = function != nullptr && function->is_object() ? BodyFields(*function).find("name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    reject_field("tool_choice",
                 "expected none, auto, required or {\"type\": \"function\", \"function\": {\"name\": ...}}, found ",
                 excerpt(*choice));
  }
  if (!tools.has(name->get_ref<const std::string&>())) {
    reject_field("tool_choice", "expected the name of one of the tools, found ", excerpt(*name));
  }
  refuse_field("tool_choice", "a function's name: calls cannot be forced, use 'auto'");
}

}  // namespace

ToolRequest read_tool_request(const BodyFields& body, const Dialect* dialect) {
  ToolRequest out;
  const Json* tools = body.list("tools");
  const Json* choice = body.find("tool_choice");
  if (tools == nullptr || tools->empty() || (choice != nullptr && *choice == "none")) return out;
  if (dialect == nullptr) {
    refuse_field("tools", "the chat template has no form of tool calls that is known; --tool-dialect names one");
  }
  check_tools(*tools);
  out.tools = ToolSet(*tools);
  check_choice(body, out.tools);
  out.parallel_calls = body.boolean("parallel_tool_calls").value_or(true);
  return out;
}

}  // namespace loci::server
