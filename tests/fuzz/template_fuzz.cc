// Any bytes as a chat template: an Error with line and cause, or a text, within bounds of time and memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/text/jinja/template.h"
#include "kernels/error.h"

namespace {

using loci::jinja::Origin;
using loci::jinja::Value;

Value dict(std::initializer_list<std::pair<const char*, Value>> fields) {
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [name, value] : fields) pairs.emplace_back(Value::string(name), value);
  return Value::dict(std::move(pairs));
}

Value text(const char* bytes) { return Value::string(bytes, Origin::kInput); }

loci::jinja::Variables variables() {
  const Value function = dict({{"name", text("f")}, {"arguments", dict({{"a", Value::integer(1)}})}});
  const Value call = dict({{"id", text("call00001")}, {"type", text("function")}, {"function", function}});
  const Value messages = Value::sequence({dict({{"role", Value::string("user")}, {"content", text("<|im_end|> żółw")}}),
                                          dict({{"role", Value::string("assistant")},
                                                {"content", Value::none()},
                                                {"tool_calls", Value::sequence({call})}})});
  return {{"messages", messages},
          {"tools", Value::sequence({dict({{"function", function}})})},
          {"n", Value::number(2.5)},
          {"add_generation_prompt", Value::boolean(true)}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  loci::jinja::Limits limits;
  limits.max_steps = 20000;
  limits.max_bytes = 4 << 20;
  try {
    (void)loci::jinja::Template::parse(source).render(variables(), "2025-03-14T09:26:53", limits);
  } catch (const loci::Error& error) {
    if (std::string_view(error.what()).find("chat template line ") == std::string_view::npos) __builtin_trap();
  }
  return 0;
}
