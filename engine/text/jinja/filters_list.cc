// Filters on sequences and mappings.
#include <algorithm>
#include <unordered_set>

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/string_ops.h"
#include "engine/text/jinja/to_text.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

// "a.b.0" or an integer: the way to a value inside each item.
class AttributePath {
 public:
  explicit AttributePath(const Value& path) {
    if (path.is_int_like()) {
      parts_.push_back(path);
      return;
    }
    if (!path.is_string()) throw RenderError(str("expected an attribute name, found ", type_name(path)));
    const std::string_view text = path.view();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      const std::string part(text.substr(begin, end - begin));
      const bool number =
          !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
      parts_.push_back(number ? Value::integer(std::stol(part)) : Value::string(part));
      begin = end + 1;
    }
  }
  Value of(Value v, const Value* fallback = nullptr) const {
    for (const Value& part : parts_) {
      v = item(v, part);
      if (v.is_undefined() && fallback != nullptr) v = *fallback;
    }
    return v;
  }

 private:
  std::vector<Value> parts_;
};

Value without_case(const Value& v) { return v.is_string() ? Value::string(lower(v.text())) : v; }

Value filter_default(Runtime&, Args& args) {
  const Bound bound(args, "default", {"value", "default_value", "boolean"}, 1);
  const bool use = bound[0].is_undefined() || (bound.boolean(2, false) && !truth(bound[0]));
  if (!use) return bound[0];
  return bound.has(1) ? bound[1] : Value::string(Text());
}

Value filter_length(Runtime&, Args& args) { return Value::integer(length(Bound(args, "length", {"obj"}, 1)[0])); }

Value filter_list(Runtime& runtime, Args& args) {
  return Value::sequence(walk(runtime, Bound(args, "list", {"value"}, 1)[0]));
}

Value filter_first(Runtime& runtime, Args& args) {
  const std::vector<Value> items = walk(runtime, Bound(args, "first", {"seq"}, 1)[0]);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(Runtime& runtime, Args& args) {
  const Bound bound(args, "last", {"seq"}, 1);
  if (bound[0].is(Kind::kIterator)) throw RenderError(str("'", type_name(bound[0]), "' object is not reversible"));
  const std::vector<Value> items = walk(runtime, bound[0]);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_join(Runtime& runtime, Args& args) {
  const Bound bound(args, "join", {"value", "d", "attribute"}, 1);
  runtime.charge(bound[0].weight() / 4 + bound[1].weight());
  const Text separator = to_text(bound[1]);
  std::optional<AttributePath> path;
  if (bound.given(2)) path.emplace(bound[2]);
  Text out;
  bool first = true;
  for (const Value& v : walk(runtime, bound[0])) {
    if (!first) out.append(separator);
    first = false;
    const Text part = to_text(path ? path->of(v) : v);
    runtime.charge_bytes(part.size() + separator.size());
    out.append(part);
  }
  return Value::string(std::move(out));
}

Value filter_reverse(Runtime& runtime, Args& args) {
  const Bound bound(args, "reverse", {"value"}, 1);
  std::vector<Value> items = walk(runtime, bound[0]);
  std::reverse(items.begin(), items.end());
  if (!bound[0].is_string()) return Value::iterator(std::move(items), "list_reverseiterator");
  Text out;
  for (const Value& c : items) out.append(c.text());
  return Value::string(std::move(out));
}

Value pair_of(const Value& key, const Value& value) { return Value::sequence({key, value}, SequenceKind::kTuple); }

Value filter_items(Runtime& runtime, Args& args) {
  const Bound bound(args, "items", {"value"}, 1);
  std::vector<Value> pairs;
  if (!bound[0].is_undefined()) {
    if (!bound[0].is_dict()) throw RenderError("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : bound[0].as_dict().items) pairs.push_back(pair_of(key, value));
  }
  runtime.charge_bytes(pairs.size() * 3 * sizeof(Value));
  return Value::iterator(std::move(pairs));
}

struct SortKey {
  std::vector<Value> keys;
  Value value;
};

// Stable; keys compare one after the other.
std::vector<Value> sorted(Runtime& runtime, std::vector<SortKey> items, bool reverse) {
  runtime.charge(items.size() * 8);
  const auto less = [](const SortKey& a, const SortKey& b) {
    for (size_t i = 0; i < a.keys.size(); ++i) {
      if (!equal(a.keys[i], b.keys[i])) return compare(a.keys[i], b.keys[i]) < 0;
    }
    return false;
  };
  // A comparison may throw in the middle; merge sort on indices leaves the data whole.
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return reverse ? less(items[b], items[a]) : less(items[a], items[b]); });
  std::vector<Value> values;
  values.reserve(items.size());
  for (const size_t i : order) values.push_back(items[i].value);
  return values;
}

Value filter_sort(Runtime& runtime, Args& args) {
  const Bound bound(args, "sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool case_sensitive = bound.boolean(2, false);
  std::vector<AttributePath> paths;
  if (bound.given(3)) {
    if (bound[3].is_string()) {
      for (const Text& name : split(runtime, bound[3].text(), ",", -1, false)) paths.emplace_back(Value::string(name));
    } else {
      paths.emplace_back(bound[3]);
    }
  }
  std::vector<SortKey> items;
  runtime.charge(bound[0].weight() / 4);
  for (const Value& v : walk(runtime, bound[0])) {
    SortKey key{{}, v};
    if (paths.empty()) key.keys.push_back(case_sensitive ? v : without_case(v));
    for (const AttributePath& path : paths) {
      const Value found = path.of(v);
      key.keys.push_back(case_sensitive ? found : without_case(found));
    }
    items.push_back(std::move(key));
  }
  return Value::sequence(sorted(runtime, std::move(items), bound.boolean(1, false)));
}

Value filter_dictsort(Runtime& runtime, Args& args) {
  const Bound bound(args, "dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  const bool case_sensitive = bound.boolean(1, false);
  const std::string by = bound.string(2, "key");
  if (by != "key" && by != "value") throw RenderError("You can only sort by either \"key\" or \"value\"");
  require_defined(bound[0]);
  if (!bound[0].is_dict()) throw RenderError(str("'", type_name(bound[0]), " object' has no attribute 'items'"));
  std::vector<SortKey> items;
  for (const auto& [key, value] : bound[0].as_dict().items) {
    const Value& sort_by = by == "key" ? key : value;
    items.push_back({{case_sensitive ? sort_by : without_case(sort_by)}, pair_of(key, value)});
  }
  runtime.charge_bytes(items.size() * 4 * sizeof(Value));
  return Value::sequence(sorted(runtime, std::move(items), bound.boolean(3, false)));
}

Value filter_groupby(Runtime& runtime, Args& args) {
  const Bound bound(args, "groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  const AttributePath path(bound[1]);
  const bool case_sensitive = bound.boolean(3, false);
  std::vector<SortKey> items;
  for (const Value& v : walk(runtime, bound[0])) {
    const Value key = path.of(v, bound.has(2) ? &bound[2] : nullptr);
    items.push_back({{case_sensitive ? key : without_case(key)}, v});
  }
  std::vector<Value> groups, members;
  std::optional<Value> current;
  const auto flush = [&] {
    if (!current) return;
    const Value key = path.of(members.front(), bound.has(2) ? &bound[2] : nullptr);
    groups.push_back(pair_of(key, Value::sequence(std::move(members))));
    members.clear();
  };
  for (const Value& v : sorted(runtime, std::move(items), false)) {
    const Value found = path.of(v, bound.has(2) ? &bound[2] : nullptr);
    const Value key = case_sensitive ? found : without_case(found);
    if (!current || !equal(*current, key)) {
      flush();
      current = key;
    }
    members.push_back(v);
  }
  flush();
  return Value::sequence(std::move(groups));
}

Value filter_unique(Runtime& runtime, Args& args) {
  const Bound bound(args, "unique", {"value", "case_sensitive", "attribute"}, 1);
  std::optional<AttributePath> path;
  if (bound.given(2)) path.emplace(bound[2]);
  std::vector<Value> kept, other_keys;
  std::unordered_set<std::string> seen;
  runtime.charge(bound[0].weight() * 4);
  for (const Value& v : walk(runtime, bound[0])) {
    Value key = path ? path->of(v) : v;
    if (!bound.boolean(1, false)) key = without_case(key);
    if (key.is_string()) {
      if (seen.insert(std::string(key.view())).second) kept.push_back(v);
      continue;
    }
    if (!hashable(key)) throw RenderError(str("unhashable type: '", type_name(key), "'"));
    runtime.charge(other_keys.size() / 8 + key.weight());
    if (std::any_of(other_keys.begin(), other_keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    other_keys.push_back(key);
    kept.push_back(v);
  }
  return Value::iterator(std::move(kept));
}

Value extreme(Runtime& runtime, Args& args, bool largest) {
  const Bound bound(args, largest ? "max" : "min", {"value", "case_sensitive", "attribute"}, 1);
  std::optional<AttributePath> path;
  if (bound.given(2)) path.emplace(bound[2]);
  runtime.charge(bound[0].weight() / 4);
  std::optional<Value> best, best_key;
  for (const Value& v : walk(runtime, bound[0])) {
    Value key = path ? path->of(v) : v;
    if (!bound.boolean(1, false)) key = without_case(key);
    if (best && (largest ? compare(key, *best_key, ">") <= 0 : compare(key, *best_key) >= 0)) continue;
    best = v;
    best_key = key;
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}
Value filter_min(Runtime& r, Args& a) { return extreme(r, a, false); }
Value filter_max(Runtime& r, Args& a) { return extreme(r, a, true); }

Value filter_sum(Runtime& runtime, Args& args) {
  const Bound bound(args, "sum", {"iterable", "attribute", "start"}, 1);
  std::optional<AttributePath> path;
  if (bound.given(1)) path.emplace(bound[1]);
  Value total = bound.has(2) ? bound[2] : Value::integer(0);
  if (total.is_string()) throw RenderError("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& v : walk(runtime, bound[0])) total = binary(runtime, Op::kAdd, total, path ? path->of(v) : v);
  return total;
}

// Arguments behind the first `n`, with the item in front.
Args rest_of(const Args& args, size_t n, Value first) {
  Args rest;
  rest.positional.push_back(std::move(first));
  rest.positional.insert(rest.positional.end(), args.positional.begin() + static_cast<ptrdiff_t>(n),
                         args.positional.end());
  rest.keyword = args.keyword;
  return rest;
}

std::string name_argument(const Args& args, size_t i, const char* function) {
  if (!args.positional[i].is_string()) {
    throw RenderError(str(function, ": expected a name, found ", type_name(args.positional[i])));
  }
  return std::string(args.positional[i].view());
}

Value filter_map(Runtime& runtime, Args& args) {
  if (args.positional.empty()) throw RenderError("map: expected a sequence");
  std::vector<Value> mapped;
  if (!truth(args.positional[0])) return Value::iterator({});  // None too, as Jinja
  if (args.positional.size() == 1) {
    const Bound bound(args, "map", {"value", "", "attribute", "default"}, 1);
    if (!bound.has(2)) throw RenderError("map requires a filter argument");
    const AttributePath path(bound[2]);
    for (const Value& v : walk(runtime, bound[0])) mapped.push_back(path.of(v, bound.has(3) ? &bound[3] : nullptr));
  } else {
    const std::string name = name_argument(args, 1, "map");
    for (const Value& v : walk(runtime, args.positional[0]))
      mapped.push_back(runtime.filter(name, rest_of(args, 2, v)));
  }
  return Value::iterator(std::move(mapped));
}

// select, reject, selectattr, rejectattr.
Value choose(Runtime& runtime, Args& args, const char* function, bool by_attribute, bool keep) {
  const size_t n_fixed = by_attribute ? 2 : 1;
  if (!args.positional.empty() && !truth(args.positional[0])) return Value::iterator({});  // None too, as Jinja
  if (args.positional.size() < n_fixed) throw RenderError(str(function, ": missing parameter for attribute name"));
  std::optional<AttributePath> path;
  if (by_attribute) path.emplace(args.positional[1]);
  const bool has_test = args.positional.size() > n_fixed;
  const std::string test = has_test ? name_argument(args, n_fixed, function) : "";
  std::vector<Value> kept;
  for (const Value& v : walk(runtime, args.positional[0])) {
    const Value subject = path ? path->of(v) : v;
    const bool passes = has_test ? runtime.test(test, rest_of(args, n_fixed + 1, subject)) : truth(subject);
    if (passes == keep) kept.push_back(v);
  }
  return Value::iterator(std::move(kept));
}
Value filter_select(Runtime& r, Args& a) { return choose(r, a, "select", false, true); }
Value filter_reject(Runtime& r, Args& a) { return choose(r, a, "reject", false, false); }
Value filter_selectattr(Runtime& r, Args& a) { return choose(r, a, "selectattr", true, true); }
Value filter_rejectattr(Runtime& r, Args& a) { return choose(r, a, "rejectattr", true, false); }

Value filter_batch(Runtime& runtime, Args& args) {
  const Bound bound(args, "batch", {"value", "linecount", "fill_with"}, 2);
  const int64_t size = bound.integer(1, 0);
  if (size < 1 || size > 1000000) throw RenderError(str("batch: expected a count from 1 to 1000000, found ", size));
  std::vector<Value> batches, current;
  const auto flush = [&] {
    batches.push_back(Value::sequence(std::move(current)));
    current.clear();
  };
  for (const Value& v : walk(runtime, bound[0])) {
    if (static_cast<int64_t>(current.size()) == size) flush();
    current.push_back(v);
  }
  if (!current.empty()) {
    if (bound.given(2)) {
      runtime.charge_bytes(static_cast<uint64_t>(size) * sizeof(Value));
      current.resize(static_cast<size_t>(size), bound[2]);
    }
    flush();
  }
  return Value::iterator(std::move(batches));
}

Value filter_slice(Runtime& runtime, Args& args) {
  const Bound bound(args, "slice", {"value", "slices", "fill_with"}, 2);
  const int64_t n_slices = bound.integer(1, 0);
  if (n_slices < 1 || n_slices > 100000)
    throw RenderError(str("slice: expected a count from 1 to 100000, found ", n_slices));
  const std::vector<Value> items = walk(runtime, bound[0]);
  runtime.charge_bytes(static_cast<uint64_t>(n_slices) * sizeof(Value));
  const size_t n = static_cast<size_t>(n_slices), each = items.size() / n, longer = items.size() % n;
  std::vector<Value> slices;
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(begin), items.begin() + static_cast<ptrdiff_t>(end));
    if (bound.given(2) && i >= longer) part.push_back(bound[2]);
    slices.push_back(Value::sequence(std::move(part)));
    begin = end;
  }
  return Value::iterator(std::move(slices));
}

Value filter_attr(Runtime&, Args& args) {
  const Bound bound(args, "attr", {"obj", "name"}, 2);
  // An attribute alone, never an item.
  if (bound[0].is_dict() && find_method(bound[0], bound.text(1).view()) == nullptr) {
    return Value::undefined(str("'dict object' has no attribute '", bound.text(1).view(), "'"));
  }
  return attribute(bound[0], std::string(bound.text(1).view()));
}

constexpr NamedBuiltin kFilters[] = {
    {"attr", filter_attr},       {"batch", filter_batch},     {"count", filter_length},
    {"d", filter_default},       {"default", filter_default}, {"dictsort", filter_dictsort},
    {"first", filter_first},     {"groupby", filter_groupby}, {"items", filter_items},
    {"join", filter_join},       {"last", filter_last},       {"length", filter_length},
    {"list", filter_list},       {"map", filter_map},         {"max", filter_max},
    {"min", filter_min},         {"reject", filter_reject},   {"rejectattr", filter_rejectattr},
    {"reverse", filter_reverse}, {"select", filter_select},   {"selectattr", filter_selectattr},
    {"slice", filter_slice},     {"sort", filter_sort},       {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

Builtin find_list_filter(std::string_view name) { return find_in(kFilters, name); }

Builtin find_filter(std::string_view name) {
  const Builtin text = find_text_filter(name);
  return text != nullptr ? text : find_list_filter(name);
}

}  // namespace loci::jinja
