// The tests behind `is`.
#include <cmath>

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/to_text.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

template <bool (*F)(const Value&)>
Value unary(Runtime&, Args& args) {
  return Value::boolean(F(Bound(args, "test", {"value"}, 1)[0]));
}
template <Op kOp>
Value binary_test(Runtime&, Args& args) {
  const Bound bound(args, "test", {"a", "b"}, 2);
  return Value::boolean(compare_op(kOp, bound[0], bound[1]));
}

bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_callable(const Value& v) { return v.is(Kind::kCallable) || v.is_undefined(); }
bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_escaped(const Value& v) { return v.is_markup(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_iterable(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_sequence() || v.is_dict() || v.is(Kind::kIterator);
}
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_sequence(const Value& v) {
  if (v.is_sequence()) {
    const SequenceKind kind = v.sequence_kind();
    return kind == SequenceKind::kList || kind == SequenceKind::kTuple || kind == SequenceKind::kRange;
  }
  return v.is_undefined() || v.is_string() || v.is_dict();
}
bool is_string(const Value& v) { return v.is_string(); }

Value test_filter(Runtime&, Args& args) {
  const Bound bound(args, "filter", {"value"}, 1);
  return Value::boolean(bound[0].is_string() && find_filter(bound[0].view()) != nullptr);
}
Value test_test(Runtime&, Args& args) {
  const Bound bound(args, "test", {"value"}, 1);
  return Value::boolean(bound[0].is_string() && find_test(bound[0].view()) != nullptr);
}

Value divisible(Runtime& runtime, const Value& a, const Value& b, int64_t remainder) {
  return Value::boolean(equal(binary(runtime, Op::kMod, a, b), Value::integer(remainder)));
}
Value test_divisibleby(Runtime& runtime, Args& args) {
  const Bound bound(args, "divisibleby", {"value", "num"}, 2);
  return divisible(runtime, bound[0], bound[1], 0);
}
Value test_even(Runtime& runtime, Args& args) {
  return divisible(runtime, Bound(args, "even", {"value"}, 1)[0], Value::integer(2), 0);
}
Value test_odd(Runtime& runtime, Args& args) {
  return divisible(runtime, Bound(args, "odd", {"value"}, 1)[0], Value::integer(2), 1);
}

Value test_case(Runtime& runtime, Args& args, const char* method) {
  Args call;
  call.positional.push_back(Value::string(to_text(Bound(args, method, {"value"}, 1)[0])));
  return find_string_method(method)(runtime, call);
}
Value test_lower(Runtime& r, Args& a) { return test_case(r, a, "islower"); }
Value test_upper(Runtime& r, Args& a) { return test_case(r, a, "isupper"); }

Value test_sameas(Runtime&, Args& args) {
  const Bound bound(args, "sameas", {"value", "other"}, 2);
  return Value::boolean(bound[0].same_as(bound[1]));
}

constexpr NamedBuiltin kTests[] = {
    {"!=", binary_test<Op::kNe>},
    {"<", binary_test<Op::kLt>},
    {"<=", binary_test<Op::kLe>},
    {"==", binary_test<Op::kEq>},
    {">", binary_test<Op::kGt>},
    {">=", binary_test<Op::kGe>},
    {"boolean", unary<is_boolean>},
    {"callable", unary<is_callable>},
    {"defined", unary<is_defined>},
    {"divisibleby", test_divisibleby},
    {"eq", binary_test<Op::kEq>},
    {"equalto", binary_test<Op::kEq>},
    {"escaped", unary<is_escaped>},
    {"even", test_even},
    {"false", unary<is_false>},
    {"filter", test_filter},
    {"float", unary<is_float>},
    {"ge", binary_test<Op::kGe>},
    {"greaterthan", binary_test<Op::kGt>},
    {"gt", binary_test<Op::kGt>},
    {"in", binary_test<Op::kIn>},
    {"integer", unary<is_integer>},
    {"iterable", unary<is_iterable>},
    {"le", binary_test<Op::kLe>},
    {"lessthan", binary_test<Op::kLt>},
    {"lower", test_lower},
    {"lt", binary_test<Op::kLt>},
    {"mapping", unary<is_mapping>},
    {"ne", binary_test<Op::kNe>},
    {"none", unary<is_none>},
    {"number", unary<is_number>},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", unary<is_sequence>},
    {"string", unary<is_string>},
    {"test", test_test},
    {"true", unary<is_true>},
    {"undefined", unary<is_undefined>},
    {"upper", test_upper},
};

}  // namespace

Builtin find_test(std::string_view name) { return find_in(kTests, name); }

}  // namespace loci::jinja
