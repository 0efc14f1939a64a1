// Template: a parsed Jinja template that can be rendered any number of times, also by several threads at once.
// The dialect is what transformers gives to chat templates: sandboxed and immutable, trim_blocks, lstrip_blocks,
// loop controls, {% generation %}, raise_exception, strftime_now, tojson without HTML escapes.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/value.h"

namespace loci::jinja {

// What a hostile template may use up. The defaults are far above what any real one needs.
struct Limits {
  uint64_t max_steps = 10'000'000;           // expressions and statements evaluated, some bytes read: about a second
  uint64_t max_bytes = uint64_t{256} << 20;  // text and lists made, all together
  uint64_t max_output_bytes = uint64_t{64} << 20;
  int max_depth = 1200;  // evaluations within each other: macros, blocks, operands
};

using Variables = std::vector<std::pair<std::string, Value>>;

class Template {
 public:
  // Throws Error(kInvalidInput, "chat template line N: cause").
  static Template parse(const std::string& source);

  // `now` is "2025-03-14T09:26:53" for strftime_now, or empty for the clock. Throws Error(kInvalidInput) with line and
  // cause; for raise_exception(message) the cause is that message.
  Text render(const Variables& variables, const std::string& now = "", const Limits& limits = {}) const;

 private:
  explicit Template(Ast ast) : ast_(std::move(ast)) {}
  Ast ast_;
};

}  // namespace loci::jinja
