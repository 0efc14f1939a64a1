// Runtime: what built-in filters, tests, functions and methods see of the render in progress: limits, calls back into
// the template, the clock. Implemented by the Interpreter.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/value.h"

namespace loci::jinja {

struct Args {
  std::vector<Value> positional;  // of a filter, test or method: the operand first
  std::vector<std::pair<std::string, Value>> keyword;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  // Count work against the limits; throw RenderError when one is passed.
  virtual void charge(uint64_t steps) = 0;
  virtual void charge_bytes(uint64_t bytes) = 0;

  virtual Value call(const Value& function, Args args) = 0;
  virtual Value filter(const std::string& name, Args args) = 0;
  virtual bool test(const std::string& name, Args args) = 0;
  virtual Value make_namespace(std::vector<std::pair<std::string, Value>> fields) = 0;
  // "2025-03-14T09:26:53", local time.
  virtual const std::string& now() = 0;
};

// A function that templates can call. Not mutable by them, cycler and joiner excepted.
struct Callable : Object {
  virtual Value call(Runtime& runtime, Args args) = 0;
  virtual std::string repr() const = 0;
  virtual Value attribute(std::string_view name) const {
    (void)name;
    return Value();
  }
};

using Builtin = Value (*)(Runtime&, Args&);

// iterate(v), charged before it is made.
std::vector<Value> walk(Runtime& runtime, const Value& v);

// nullptr when there is none of that name.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_string_method(std::string_view name);
Builtin find_dict_method(std::string_view name);
Builtin find_sequence_method(std::string_view name);
// Global functions (range, namespace, dict, cycler, joiner, raise_exception, strftime_now); undefined when unknown.
Value find_global(const std::string& name);

// Arguments of a built-in by name.
class Bound {
 public:
  // `names`: all parameters in order. Throws RenderError for missing, unknown and surplus arguments.
  Bound(const Args& args, const char* function, std::initializer_list<const char*> names, size_t n_required);

  bool has(size_t i) const { return values_[i] != nullptr; }
  bool given(size_t i) const { return has(i) && !values_[i]->is_none(); }  // neither missing nor None
  const Value& operator[](size_t i) const;                                 // undefined when missing
  int64_t integer(size_t i, int64_t fallback) const;
  bool boolean(size_t i, bool fallback) const;
  std::string string(size_t i, const char* fallback) const;  // throws for other types
  const Text& text(size_t i) const;                          // throws unless a string

 private:
  const char* function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

}  // namespace loci::jinja
