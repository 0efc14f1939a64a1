// Python's operators, attribute access and subscripts on values, within the sandbox.
#pragma once
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/runtime.h"

namespace loci::jinja {

Value binary(Runtime& runtime, Op op, const Value& a, const Value& b);  // arithmetic operators
bool compare_op(Op op, const Value& a, const Value& b);                 // == != < <= > >= in, not in
Value negative(const Value& v);
Value positive(const Value& v);

// v.name: a method or, failing that, an item; undefined when there is neither.
Value attribute(const Value& v, const std::string& name);
// v[key]: an item or, failing that, an attribute.
Value item(const Value& v, const Value& key);
// v[start:stop:step]; the parts may be None.
Value slice(Runtime& runtime, const Value& v, const Value& start, const Value& stop, const Value& step);
// The method of a string, dict or list, nullptr when the kind has none of that name or the sandbox forbids it.
Builtin find_method(const Value& v, std::string_view name);

// Undefined values are errors in every other use than printing, testing and iterating.
void require_defined(const Value& v);

}  // namespace loci::jinja
