#include "engine/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/text/jinja/format.h"
#include "engine/text/jinja/to_text.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

[[noreturn]] void too_large() { throw RenderError("integer result is too large (64 bits are supported)"); }

[[noreturn]] void unsupported(const char* op, const Value& a, const Value& b) {
  throw RenderError(str("unsupported operand type(s) for ", op, ": '", type_name(a), "' and '", type_name(b), "'"));
}

int64_t add_checked(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) too_large();
  return r;
}
int64_t subtract_checked(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_sub_overflow(a, b, &r)) too_large();
  return r;
}
int64_t multiply_checked(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) too_large();
  return r;
}

// Towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw RenderError("integer division or modulo by zero");
  if (b == -1) return subtract_checked(0, a);
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) result = multiply_checked(result, base);
    exponent >>= 1;
    if (exponent > 0) base = multiply_checked(base, base);
  }
  return result;
}

Value add(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    runtime.charge_bytes(a.text().size() + b.text().size());
    if (a.is_markup() || b.is_markup()) {
      Text text = a.is_markup() ? a.text() : escape_html(a.text());
      text.append(b.is_markup() ? b.text() : escape_html(b.text()));
      return Value::string(std::move(text), true);
    }
    Text text = a.text();
    text.append(b.text());
    return Value::string(std::move(text));
  }
  const auto concatenates = [](const Value& v) {
    return v.is_sequence() && (v.is_list() || v.sequence_kind() == SequenceKind::kTuple);
  };
  if (concatenates(a) && concatenates(b) && a.sequence_kind() == b.sequence_kind()) {
    runtime.charge_bytes((a.items().size() + b.items().size()) * sizeof(Value));
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return Value::sequence(std::move(items), a.sequence_kind());
  }
  if (a.is_string() || concatenates(a)) {
    const char* type = a.is_string() ? "str" : type_name(a);
    throw RenderError(str("can only concatenate ", type, " (not \"", type_name(b), "\") to ", type));
  }
  unsupported("+", a, b);
}

Value repeat(Runtime& runtime, const Value& v, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = v.is_string() ? v.text().size() : v.items().size() * sizeof(Value);
  if (size > 0 && static_cast<uint64_t>(times) > (uint64_t{1} << 40) / size) {
    throw RenderError("the result of a repetition is too large");
  }
  runtime.charge_bytes(size * static_cast<uint64_t>(times));
  if (v.is_string()) {
    Text text;
    if (size > 0) {
      for (int64_t i = 0; i < times; ++i) text.append(v.text());
    }
    return Value::string(std::move(text), v.is_markup());
  }
  std::vector<Value> items;
  if (size > 0) {
    for (int64_t i = 0; i < times; ++i) items.insert(items.end(), v.items().begin(), v.items().end());
  }
  return Value::sequence(std::move(items), v.sequence_kind());
}

Value multiply(Runtime& runtime, const Value& a, const Value& b) {
  const auto repeats = [](const Value& v) {
    return v.is_string() || v.is_list() || (v.is_sequence() && v.sequence_kind() == SequenceKind::kTuple);
  };
  if (repeats(a) && b.is_int_like()) return repeat(runtime, a, b.as_int());
  if (repeats(b) && a.is_int_like()) return repeat(runtime, b, a.as_int());
  if (repeats(a) || repeats(b)) {
    throw RenderError(str("can't multiply sequence by non-int of type '", type_name(repeats(a) ? b : a), "'"));
  }
  unsupported("*", a, b);
}

Value power(const Value& a, const Value& b) {
  if (a.is_int_like() && b.is_int_like() && b.as_int() >= 0) {
    return Value::integer(integer_power(a.as_int(), b.as_int()));
  }
  const double x = a.as_double(), y = b.as_double();
  if (x == 0 && y < 0) throw RenderError("0.0 cannot be raised to a negative power");
  if (x < 0 && y != std::floor(y)) throw RenderError("a negative number to a fractional power is complex");
  const double r = std::pow(x, y);
  if (std::isinf(r) && !std::isinf(x) && !std::isinf(y)) throw RenderError("numerical result out of range");
  return Value::number(r);
}

double float_modulo(double a, double b) {
  if (b == 0) throw RenderError("float modulo by zero");
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

Value integers(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::kAdd:
      return Value::integer(add_checked(a, b));
    case Op::kSub:
      return Value::integer(subtract_checked(a, b));
    case Op::kMul:
      return Value::integer(multiply_checked(a, b));
    case Op::kFloorDiv:
      return Value::integer(floor_divide(a, b));
    case Op::kMod:
      if (b == -1) return Value::integer(0);
      return Value::integer(a - floor_divide(a, b) * b);
    default:
      if (b == 0) throw RenderError("division by zero");
      return Value::number(static_cast<double>(a) / static_cast<double>(b));
  }
}

Value floats(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::number(a + b);
    case Op::kSub:
      return Value::number(a - b);
    case Op::kMul:
      return Value::number(a * b);
    case Op::kMod:
      return Value::number(float_modulo(a, b));
    case Op::kFloorDiv:
      if (b == 0) throw RenderError("float floor division by zero");
      return Value::number(std::floor(a / b));
    default:
      if (b == 0) throw RenderError("float division by zero");
      return Value::number(a / b);
  }
}

const char* op_text(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    case Op::kPow:
      return "** or pow()";
    case Op::kLt:
      return "<";
    case Op::kLe:
      return "<=";
    case Op::kGt:
      return ">";
    case Op::kGe:
      return ">=";
    default:
      return "==";
  }
}

// "str object", "None", ...: how Jinja names the owner of a missing attribute.
std::string owner_name(const Value& v) {
  if (v.is_none()) return "None";
  if (v.is(Kind::kNamespace)) return "jinja2.utils.Namespace object";
  return str(type_name(v), " object");
}

Value missing_attribute(const Value& v, std::string_view name) {
  return Value::undefined(str("'", owner_name(v), "' has no attribute '", name, "'"));
}

struct BoundMethod : Callable {
  BoundMethod(Value self_value, Builtin method, std::string method_name)
      : self(std::move(self_value)), function(method), name(std::move(method_name)) {
    hold(self);
  }
  Value call(Runtime& runtime, Args args) override {
    if (self.is_string()) runtime.charge(self.weight());
    args.positional.insert(args.positional.begin(), self);
    return function(runtime, args);
  }
  std::string repr() const override { return str("<built-in method ", name, " of ", type_name(self), " object>"); }
  Value self;
  Builtin function;
  std::string name;
};

// Methods that would change a list or dict: the sandbox shows them as undefined, with a reason.
bool is_mutator(const Value& v, std::string_view name) {
  static constexpr std::string_view kOfList[] = {"append", "clear", "pop",    "reverse",
                                                 "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (v.is_dict()) return std::find(std::begin(kOfDict), std::end(kOfDict), name) != std::end(kOfDict);
  return v.is_list() && std::find(std::begin(kOfList), std::end(kOfList), name) != std::end(kOfList);
}

// Methods and forbidden attributes; plain undefined (no reason) when there is nothing of that name.
Value own_attribute(const Value& v, const std::string& name) {
  if (const Builtin method = find_method(v, name)) {
    return Value::object(Kind::kCallable, std::make_shared<BoundMethod>(v, method, name));
  }
  if (v.is(Kind::kCallable)) {
    Value found = v.as_callable().attribute(name);
    if (!found.is_undefined() || !found.undefined_reason().empty()) return found;
  }
  if (v.is(Kind::kNamespace)) {
    if (const Value* field = v.as_namespace().find(name)) return *field;
  }
  const bool is_dunder =
      name.size() > 4 && name.compare(0, 2, "__") == 0 && name.compare(name.size() - 2, 2, "__") == 0;
  if (is_mutator(v, name) || is_dunder) {
    return Value::undefined(str("access to attribute '", name, "' of '", type_name(v), "' object is unsafe."));
  }
  return Value();
}

bool is_nothing(const Value& v) { return v.is_undefined() && v.undefined_reason().empty(); }

// Item by key; nullopt when there is none.
std::optional<Value> own_item(const Value& v, const Value& key) {
  if (v.is_dict()) {
    if (!hashable(key)) return std::nullopt;
    const Value* found = v.as_dict().find(key);
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!key.is_int_like()) return std::nullopt;
  int64_t i = key.as_int();
  if (v.is_sequence()) {
    const auto& items = v.items();
    const SequenceKind kind = v.sequence_kind();
    if (kind != SequenceKind::kList && kind != SequenceKind::kTuple && kind != SequenceKind::kRange)
      return std::nullopt;
    const auto size = static_cast<int64_t>(items.size());
    if (i < 0) i += size;
    if (i < 0 || i >= size) return std::nullopt;
    return items[static_cast<size_t>(i)];
  }
  if (v.is_string()) {
    const std::string_view text = v.view();
    size_t begin = 0;
    if (i < 0) {
      begin = text.size();
      for (; i < 0; ++i) {
        if (begin == 0) return std::nullopt;
        begin = previous(text, begin);
      }
    } else {
      begin = offset_of(text, static_cast<size_t>(i));
    }
    if (begin >= text.size()) return std::nullopt;
    return Value::string(v.text().slice(begin, begin + decode_at(text, begin).size));
  }
  return std::nullopt;
}

}  // namespace

void require_defined(const Value& v) {
  if (v.is_undefined()) throw RenderError(undefined_message(v));
}

Value binary(Runtime& runtime, Op op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (op == Op::kPow) return power(a, b);
    if (a.is_int_like() && b.is_int_like()) return integers(op, a.as_int(), b.as_int());
    return floats(op, a.as_double(), b.as_double());
  }
  if (op == Op::kMod && a.is_string()) return format_percent(runtime, a, b);
  require_defined(a);
  require_defined(b);
  if (op == Op::kAdd) return add(runtime, a, b);
  if (op == Op::kMul) return multiply(runtime, a, b);
  unsupported(op_text(op), a, b);
}

bool compare_op(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEq:
      return equal(a, b);
    case Op::kNe:
      return !equal(a, b);
    case Op::kIn:
      return contains(b, a);
    case Op::kNotIn:
      return !contains(b, a);
    default:
      break;
  }
  if (a.is_number() && b.is_number() && (std::isnan(a.as_double()) || std::isnan(b.as_double()))) return false;
  const int order = compare(a, b, op_text(op));
  switch (op) {
    case Op::kLt:
      return order < 0;
    case Op::kLe:
      return order <= 0;
    case Op::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

Value negative(const Value& v) {
  if (v.is_int_like()) return Value::integer(subtract_checked(0, v.as_int()));
  if (v.is(Kind::kFloat)) return Value::number(-v.as_double());
  require_defined(v);
  throw RenderError(str("bad operand type for unary -: '", type_name(v), "'"));
}

Value positive(const Value& v) {
  if (v.is_int_like()) return Value::integer(v.as_int());
  if (v.is(Kind::kFloat)) return v;
  require_defined(v);
  throw RenderError(str("bad operand type for unary +: '", type_name(v), "'"));
}

Builtin find_method(const Value& v, std::string_view name) {
  switch (v.kind()) {
    case Kind::kString:
      return find_string_method(name);
    case Kind::kDict:
      return find_dict_method(name);
    case Kind::kSequence:
      return v.is_list() || v.sequence_kind() == SequenceKind::kTuple ? find_sequence_method(name) : nullptr;
    default:
      return nullptr;
  }
}

Value attribute(const Value& v, const std::string& name) {
  require_defined(v);
  Value own = own_attribute(v, name);
  if (!is_nothing(own)) return own;
  if (v.is_dict()) {
    if (const Value* found = v.as_dict().find(std::string_view(name))) return *found;
  }
  return missing_attribute(v, name);
}

Value item(const Value& v, const Value& key) {
  require_defined(v);
  if (std::optional<Value> found = own_item(v, key)) return *found;
  if (key.is_string()) {
    Value own = own_attribute(v, std::string(key.view()));
    return is_nothing(own) ? missing_attribute(v, key.view()) : own;
  }
  return Value::undefined(str("'", owner_name(v), "' has no element ", repr(key).bytes()));
}

Value slice(Runtime& runtime, const Value& v, const Value& start, const Value& stop, const Value& step) {
  require_defined(v);
  const bool sliceable =
      v.is_string() || v.is_list() ||
      (v.is_sequence() && (v.sequence_kind() == SequenceKind::kTuple || v.sequence_kind() == SequenceKind::kRange));
  if (!sliceable) {
    // As Jinja: a subscript that fails is undefined.
    return Value::undefined(str("'", owner_name(v), "' has no slices"));
  }
  for (const Value* part : {&start, &stop, &step}) {
    if (!part->is_none() && !part->is_int_like()) {
      return Value::undefined("slice indices must be integers or None or have an __index__ method");
    }
  }
  const int64_t stride = step.is_none() ? 1 : step.as_int();
  if (stride == 0) throw RenderError("slice step cannot be zero");
  std::vector<size_t> offsets;  // byte offsets of the code points, when needed
  const bool is_string = v.is_string();
  const std::string_view text = is_string ? v.view() : std::string_view();
  const int64_t size = is_string ? length(v) : static_cast<int64_t>(v.items().size());
  const auto clamp = [&](const Value& part, int64_t fallback) {
    if (part.is_none()) return fallback;
    int64_t i = part.as_int();
    if (i < 0) i = std::max<int64_t>(i, -size - 1) + size;
    return std::clamp<int64_t>(i, stride > 0 ? 0 : -1, stride > 0 ? size : size - 1);
  };
  const int64_t first = clamp(start, stride > 0 ? 0 : size - 1);
  const int64_t last = clamp(stop, stride > 0 ? size : -1);
  if (is_string && stride == 1) {
    if (first >= last) return Value::string(Text(), v.is_markup());
    const size_t begin = offset_of(text, static_cast<size_t>(first));
    const size_t end =
        last == size ? text.size() : begin + offset_of(text.substr(begin), static_cast<size_t>(last - first));
    runtime.charge_bytes(end - begin);
    return Value::string(v.text().slice(begin, end), v.is_markup());
  }
  if (is_string) {
    runtime.charge_bytes(text.size() * sizeof(size_t));
    for (size_t i = 0; i < text.size(); i += decode_at(text, i).size) offsets.push_back(i);
    offsets.push_back(text.size());
  }
  Text out;
  std::vector<Value> items;
  const int64_t magnitude = stride > 0 ? stride : stride == std::numeric_limits<int64_t>::min() ? size + 1 : -stride;
  const int64_t n = stride > 0 ? (last - first + std::min(stride, size + 1) - 1) / std::min(stride, size + 1)
                               : (first - last + std::min(magnitude, size + 1) - 1) / std::min(magnitude, size + 1);
  for (int64_t k = 0, i = first; k < n; ++k) {
    if (is_string)
      out.append(v.text(), offsets[static_cast<size_t>(i)], offsets[static_cast<size_t>(i) + 1]);
    else
      items.push_back(v.items()[static_cast<size_t>(i)]);
    i += stride > 0 ? std::min(stride, size + 1) : -std::min(magnitude, size + 1);
  }
  if (is_string) return Value::string(std::move(out), v.is_markup());
  runtime.charge_bytes(items.size() * sizeof(Value));
  return Value::sequence(std::move(items), v.sequence_kind());
}

}  // namespace loci::jinja
