// Global functions, the methods of dict and list, and the binding of arguments to parameters.
#include <algorithm>

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/strftime.h"
#include "engine/text/jinja/to_text.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // as Jinja's sandbox

Value function_range(Runtime& runtime, Args& args) {
  const Bound bound(args, "range", {"start", "stop", "step"}, 1);
  for (const Value& v : args.positional) {
    require_defined(v);
    if (!v.is_int_like()) throw RenderError(str("'", type_name(v), "' object cannot be interpreted as an integer"));
  }
  const int64_t start = bound.has(1) ? bound[0].as_int() : 0;
  const int64_t stop = bound.has(1) ? bound[1].as_int() : bound[0].as_int();
  const int64_t step = bound.has(2) ? bound[2].as_int() : 1;
  if (step == 0) throw RenderError("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      throw RenderError(str("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ")."));
    }
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  runtime.charge(items.size());
  runtime.charge_bytes(items.size() * sizeof(Value));
  return Value::sequence(std::move(items), SequenceKind::kRange);
}

// Pairs from a mapping or a sequence of pairs, then the keyword arguments: dict(...) and namespace(...).
std::vector<std::pair<Value, Value>> pairs_of(Runtime& runtime, const Args& args, const char* function) {
  if (args.positional.size() > 1) {
    throw RenderError(str(function, " expected at most 1 positional argument, got ", args.positional.size()));
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is_dict()) {
      pairs = from.as_dict().items;
    } else {
      for (const Value& pair : walk(runtime, from)) {
        const std::vector<Value> parts = walk(runtime, pair);
        if (parts.size() != 2) throw RenderError(str(function, ": expected pairs of key and value"));
        if (!hashable(parts[0])) throw RenderError(str("unhashable type: '", type_name(parts[0]), "'"));
        pairs.emplace_back(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.keyword) pairs.emplace_back(Value::string(name), value);
  return pairs;
}

// Keys that are no strings are compared one by one.
void charge_keys(Runtime& runtime, const std::vector<std::pair<Value, Value>>& pairs) {
  uint64_t weight = 0;
  for (const auto& [key, value] : pairs) weight += key.is_string() ? 0 : key.weight();
  runtime.charge(weight * weight / 16);
}

Value function_dict(Runtime& runtime, Args& args) {
  auto pairs = pairs_of(runtime, args, "dict");
  runtime.charge_bytes(pairs.size() * 2 * sizeof(Value));
  charge_keys(runtime, pairs);
  return Value::dict(std::move(pairs));
}

Value function_namespace(Runtime& runtime, Args& args) {
  std::vector<std::pair<std::string, Value>> fields;
  for (auto& [key, value] : pairs_of(runtime, args, "namespace")) {
    if (!key.is_string()) throw RenderError("namespace: expected names of fields to be strings");
    fields.emplace_back(std::string(key.view()), std::move(value));
  }
  runtime.charge(fields.size() * fields.size() / 16);  // fields are searched one by one
  return runtime.make_namespace(std::move(fields));
}

Value function_raise_exception(Runtime&, Args& args) {
  throw RenderError(to_text(Bound(args, "raise_exception", {"message"}, 1)[0]).bytes());
}

Value function_strftime_now(Runtime& runtime, Args& args) {
  const Bound bound(args, "strftime_now", {"format"}, 1);
  runtime.charge_bytes(bound.text(0).size() * 24);
  return Value::string(format_time(bound.text(0).view(), runtime.now()));
}

struct Function : Callable {
  Function(const char* function_name, Builtin builtin) : name(function_name), function(builtin) {}
  Value call(Runtime& runtime, Args args) override { return function(runtime, args); }
  std::string repr() const override { return str("<function ", name, ">"); }
  const char* name;
  Builtin function;
};

struct CyclerState {
  std::vector<Value> items;
  size_t position = 0;
};

// cycler.next and cycler.reset.
struct CyclerMethod : Callable {
  CyclerMethod(std::shared_ptr<CyclerState> of, bool resets) : state(std::move(of)), is_reset(resets) {
    for (const Value& v : state->items) hold(v);
  }
  Value call(Runtime&, Args) override {
    if (is_reset) {
      state->position = 0;
      return Value::none();
    }
    const Value current = state->items[state->position];
    state->position = (state->position + 1) % state->items.size();
    return current;
  }
  std::string repr() const override { return is_reset ? "<bound method Cycler.reset>" : "<bound method Cycler.next>"; }
  std::shared_ptr<CyclerState> state;
  bool is_reset;
};

struct Cycler : Callable {
  explicit Cycler(std::vector<Value> items) : state(std::make_shared<CyclerState>()) {
    for (const Value& v : items) hold(v);
    state->items = std::move(items);
  }
  Value call(Runtime&, Args) override { throw RenderError("'Cycler' object is not callable"); }
  std::string repr() const override { return "<Cycler>"; }
  Value attribute(std::string_view name) const override {
    if (name == "current") return state->items[state->position];
    if (name != "next" && name != "reset") return Value();
    return Value::object(Kind::kCallable, std::make_shared<CyclerMethod>(state, name == "reset"));
  }
  std::shared_ptr<CyclerState> state;
};

Value function_cycler(Runtime&, Args& args) {
  if (!args.keyword.empty()) throw RenderError("cycler takes no keyword arguments");
  if (args.positional.empty()) throw RenderError("at least one item has to be provided");
  return Value::object(Kind::kCallable, std::make_shared<Cycler>(std::move(args.positional)));
}

// Empty when called first, the separator from then on.
struct Joiner : Callable {
  explicit Joiner(Value text) : separator(std::move(text)) { hold(separator); }
  Value call(Runtime&, Args) override {
    if (used) return separator;
    used = true;
    return Value::string(Text());
  }
  std::string repr() const override { return "<Joiner>"; }
  Value separator;
  bool used = false;
};

Value function_joiner(Runtime&, Args& args) {
  const Bound bound(args, "joiner", {"sep"}, 0);
  return Value::object(Kind::kCallable, std::make_shared<Joiner>(bound.has(0) ? bound[0] : Value::string(", ")));
}

constexpr NamedBuiltin kFunctions[] = {
    {"cycler", function_cycler},
    {"dict", function_dict},
    {"joiner", function_joiner},
    {"namespace", function_namespace},
    {"raise_exception", function_raise_exception},
    {"range", function_range},
    {"strftime_now", function_strftime_now},
};

// ---- Methods of dict, list and tuple.

Value method_get(Runtime& runtime, Args& args) {
  const Bound bound(args, "get", {"self", "key", "default"}, 2);
  if (!bound[1].is_string()) runtime.charge(bound[0].as_dict().items.size() / 8 + bound[1].weight());
  const Value* found = bound[0].as_dict().find(bound[1]);
  if (found != nullptr) return *found;
  return bound.has(2) ? bound[2] : Value::none();
}

Value view(Runtime& runtime, Args& args, SequenceKind kind, const char* name) {
  const Bound bound(args, name, {"self"}, 1);
  std::vector<Value> items;
  for (const auto& [key, value] : bound[0].as_dict().items) {
    if (kind == SequenceKind::kKeys)
      items.push_back(key);
    else if (kind == SequenceKind::kValues)
      items.push_back(value);
    else
      items.push_back(Value::sequence({key, value}, SequenceKind::kTuple));
  }
  runtime.charge_bytes(items.size() * 2 * sizeof(Value));
  return Value::sequence(std::move(items), kind);
}
Value method_keys(Runtime& r, Args& a) { return view(r, a, SequenceKind::kKeys, "keys"); }
Value method_values(Runtime& r, Args& a) { return view(r, a, SequenceKind::kValues, "values"); }
Value method_items(Runtime& r, Args& a) { return view(r, a, SequenceKind::kItems, "items"); }
Value method_copy(Runtime&, Args& args) { return Bound(args, "copy", {"self"}, 1)[0]; }

constexpr NamedBuiltin kDictMethods[] = {{"copy", method_copy},
                                         {"get", method_get},
                                         {"items", method_items},
                                         {"keys", method_keys},
                                         {"values", method_values}};

Value method_count(Runtime& runtime, Args& args) {
  const Bound bound(args, "count", {"self", "value"}, 2);
  runtime.charge(bound[0].weight());
  const auto& items = bound[0].items();
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, bound[1]); }));
}

Value method_index(Runtime& runtime, Args& args) {
  const Bound bound(args, "index", {"self", "value", "start", "stop"}, 2);
  const auto& items = bound[0].items();
  runtime.charge(bound[0].weight());
  const auto size = static_cast<int64_t>(items.size());
  const auto position = [&](size_t i, int64_t fallback) {
    const int64_t at = bound.integer(i, fallback);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (int64_t i = position(2, 0); i < position(3, size); ++i) {
    if (equal(items[static_cast<size_t>(i)], bound[1])) return Value::integer(i);
  }
  throw RenderError(str(repr(bound[1]).bytes().substr(0, 100), " is not in list"));
}

constexpr NamedBuiltin kSequenceMethods[] = {{"copy", method_copy}, {"count", method_count}, {"index", method_index}};

}  // namespace

Builtin find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }
Builtin find_sequence_method(std::string_view name) { return find_in(kSequenceMethods, name); }

Value find_global(const std::string& name) {
  const auto it =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const auto& f) { return f.name == name; });
  if (it == std::end(kFunctions)) return Value();
  return Value::object(Kind::kCallable, std::make_shared<Function>(it->name.data(), it->function));
}

std::vector<Value> walk(Runtime& runtime, const Value& v) {
  if (v.is_string()) {
    runtime.charge_bytes(v.text().size() * (sizeof(Value) + sizeof(String)));  // a string of its own for each letter
  } else if (v.is_sequence() || v.is_dict()) {
    const auto n = static_cast<uint64_t>(length(v));
    runtime.charge(n);
    runtime.charge_bytes(n * sizeof(Value));
  }
  return iterate(v);
}

Bound::Bound(const Args& args, const char* function, std::initializer_list<const char*> names, size_t n_required)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (args.positional.size() > names_.size()) {
    throw RenderError(str(function, "() takes at most ", names_.size(), " arguments, found ", args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.keyword) {
    const auto it = std::find(names_.begin(), names_.end(), std::string_view(name));
    if (it == names_.end()) throw RenderError(str(function, "() got an unexpected keyword argument '", name, "'"));
    const auto i = static_cast<size_t>(it - names_.begin());
    if (values_[i] != nullptr) throw RenderError(str(function, "() got multiple values for argument '", name, "'"));
    values_[i] = &value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (values_[i] == nullptr) throw RenderError(str(function, "() missing required argument '", names_[i], "'"));
  }
}

const Value& Bound::operator[](size_t i) const {
  static const Value kMissing{};
  return values_[i] != nullptr ? *values_[i] : kMissing;
}

int64_t Bound::integer(size_t i, int64_t fallback) const {
  if (!given(i)) return fallback;
  const Value& v = (*this)[i];
  require_defined(v);
  if (!v.is_int_like())
    throw RenderError(str(function_, ": ", names_[i], ": expected an integer, found ", type_name(v)));
  return v.as_int();
}

bool Bound::boolean(size_t i, bool fallback) const { return has(i) ? truth((*this)[i]) : fallback; }

const Text& Bound::text(size_t i) const {
  const Value& v = (*this)[i];
  require_defined(v);
  if (!v.is_string()) throw RenderError(str(function_, ": ", names_[i], ": expected a string, found ", type_name(v)));
  return v.text();
}

std::string Bound::string(size_t i, const char* fallback) const {
  return given(i) ? text(i).bytes() : std::string(fallback);
}

}  // namespace loci::jinja
