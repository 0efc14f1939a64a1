#include "engine/text/jinja/value.h"

#include <algorithm>
#include <cstring>

#include "engine/text/jinja/runtime.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

constexpr size_t kIndexedFrom = 12;  // a dict this large gets a hash index of its string keys

}  // namespace

void Object::hold(const Value& v) {
  depth = std::max(depth, v.depth() + 1);
  weight += v.weight();
  if (depth > kMaxDepth) throw RenderError(str("values are nested more than ", kMaxDepth, " levels deep"));
  if (weight > kMaxWeight) throw RenderError("a list or dict is too large");
}

Value Value::boolean(bool b) {
  Value v(Kind::kBool);
  v.bool_ = b;
  return v;
}

Value Value::integer(int64_t i) {
  Value v(Kind::kInt);
  v.int_ = i;
  return v;
}

Value Value::number(double d) {
  Value v(Kind::kFloat);
  v.double_ = d;
  return v;
}

Value Value::string(Text text, bool markup) {
  auto object = std::make_shared<String>();
  object->weight += text.size() / 64;
  object->text = std::move(text);
  object->markup = markup;
  return Value(Kind::kString, std::move(object));
}

Value Value::sequence(std::vector<Value> items, SequenceKind kind) {
  auto object = std::make_shared<Sequence>();
  object->depth = 1;
  for (const Value& item : items) object->hold(item);
  object->items = std::move(items);
  object->kind = kind;
  return Value(Kind::kSequence, std::move(object));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto object = std::make_shared<Dict>();
  object->depth = 1;
  object->items.reserve(items.size());
  for (auto& [key, value] : items) {
    object->hold(key);
    object->hold(value);
    if (const Value* found = object->find(key)) {
      const_cast<Value&>(*found) = std::move(value);
      continue;
    }
    object->items.emplace_back(std::move(key), std::move(value));
    const size_t n = object->items.size();
    const auto add = [&](size_t i) {
      if (object->items[i].first.is_string()) object->index.emplace(object->items[i].first.view(), i);
    };
    if (n == kIndexedFrom) {
      for (size_t i = 0; i < n; ++i) add(i);
    } else if (n > kIndexedFrom) {
      add(n - 1);
    }
  }
  return Value(Kind::kDict, std::move(object));
}

Value Value::iterator(std::vector<Value> items, const char* type) {
  auto object = std::make_shared<Iterator>();
  object->depth = 1;
  for (const Value& item : items) object->hold(item);
  object->items = std::move(items);
  object->type_name = type;
  return Value(Kind::kIterator, std::move(object));
}

Value Value::undefined(std::string why) {
  auto object = std::make_shared<UndefinedInfo>();
  object->why = std::move(why);
  return Value(Kind::kUndefined, std::move(object));
}

const Text& Value::text() const { return static_cast<const String&>(*object_).text; }
bool Value::is_markup() const { return kind_ == Kind::kString && static_cast<const String&>(*object_).markup; }
const std::vector<Value>& Value::items() const { return static_cast<const Sequence&>(*object_).items; }
SequenceKind Value::sequence_kind() const { return static_cast<const Sequence&>(*object_).kind; }
bool Value::is_list() const { return kind_ == Kind::kSequence && sequence_kind() == SequenceKind::kList; }
const Dict& Value::as_dict() const { return static_cast<const Dict&>(*object_); }
Iterator& Value::as_iterator() const { return static_cast<Iterator&>(*object_); }
Namespace& Value::as_namespace() const { return static_cast<Namespace&>(*object_); }
Callable& Value::as_callable() const { return static_cast<Callable&>(*object_); }

std::string Value::undefined_reason() const {
  return object_ ? static_cast<const UndefinedInfo&>(*object_).why : std::string();
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return bool_ == other.bool_;
    case Kind::kInt:
      return int_ == other.int_;
    case Kind::kFloat:
      return double_ == other.double_;
    case Kind::kString:
      return object_ == other.object_ || view() == other.view();  // Python interns short strings
    default:
      return object_ == other.object_;
  }
}

const Value* Dict::find(std::string_view key) const {
  if (!index.empty()) {
    const auto it = index.find(key);
    return it == index.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [name, value] : items) {
    if (name.is_string() && name.view() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.view());
  if (!hashable(key)) throw RenderError(str("unhashable type: '", type_name(key), "'"));
  for (const auto& [name, value] : items) {
    if (!name.is_string() && equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [field, old] : fields) {
    if (field == name) {
      old = std::move(value);
      return;
    }
  }
  fields.emplace_back(name, std::move(value));
}

bool truth(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.as_int() != 0;
    case Kind::kFloat:
      return v.as_double() != 0;
    case Kind::kString:
      return !v.text().empty();
    case Kind::kSequence:
      return !v.items().empty();
    case Kind::kDict:
      return !v.as_dict().items.empty();
    default:
      return true;
  }
}

const char* type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return v.is_markup() ? "Markup" : "str";
    case Kind::kSequence:
      switch (v.sequence_kind()) {
        case SequenceKind::kList:
          return "list";
        case SequenceKind::kTuple:
          return "tuple";
        case SequenceKind::kRange:
          return "range";
        case SequenceKind::kKeys:
          return "dict_keys";
        case SequenceKind::kValues:
          return "dict_values";
        case SequenceKind::kItems:
          return "dict_items";
      }
      return "list";
    case Kind::kDict:
      return "dict";
    case Kind::kIterator:
      return v.as_iterator().type_name;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return "function";
  }
  return "object";
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_int_like() && b.is_int_like()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.view() == b.view();
    case Kind::kSequence: {
      if (a.sequence_kind() != b.sequence_kind()) return false;
      const auto &x = a.items(), &y = b.items();
      return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), equal);
    }
    case Kind::kDict: {
      const Dict &x = a.as_dict(), &y = b.as_dict();
      if (x.items.size() != y.items.size()) return false;
      return std::all_of(x.items.begin(), x.items.end(), [&](const auto& item) {
        const Value* other = y.find(item.first);
        return other != nullptr && equal(item.second, *other);
      });
    }
    default:
      return a.same_as(b);
  }
}

int compare(const Value& a, const Value& b, const char* op) {
  if (a.is_number() && b.is_number()) {
    if (a.is_int_like() && b.is_int_like()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double();
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.view().compare(b.view());  // UTF-8 sorts as its code points do
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_sequence() && b.is_sequence() && a.sequence_kind() == b.sequence_kind() &&
      (a.is_list() || a.sequence_kind() == SequenceKind::kTuple)) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return compare(x[i], y[i], op);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  if (a.is_undefined() || b.is_undefined()) throw RenderError(undefined_message(a.is_undefined() ? a : b));
  throw RenderError(str("'", op, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'"));
}

bool hashable(const Value& v) {
  if (v.is_dict()) return false;
  if (!v.is_sequence()) return true;
  if (v.sequence_kind() == SequenceKind::kRange) return true;
  if (v.sequence_kind() != SequenceKind::kTuple) return false;
  return std::all_of(v.items().begin(), v.items().end(), hashable);
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size() || part.size() > text.size() - from) return std::string_view::npos;
  if (part.empty()) return from;
  // memmem is linear; string_view::find is quadratic on "aaa...b" in "aaa...".
  const void* at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return at == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

std::vector<Value> iterate(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kSequence:
      return v.items();
    case Kind::kDict: {
      std::vector<Value> keys;
      keys.reserve(v.as_dict().items.size());
      for (const auto& [key, value] : v.as_dict().items) keys.push_back(key);
      return keys;
    }
    case Kind::kString: {
      std::vector<Value> characters;
      for (size_t i = 0; i < v.text().size();) {
        const size_t size = decode_at(v.view(), i).size;
        characters.push_back(Value::string(v.text().slice(i, i + size)));
        i += size;
      }
      return characters;
    }
    case Kind::kIterator: {
      Iterator& it = v.as_iterator();
      std::vector<Value> rest(it.items.begin() + static_cast<ptrdiff_t>(it.next), it.items.end());
      it.next = it.items.size();
      return rest;
    }
    default:
      throw RenderError(str("'", type_name(v), "' object is not iterable"));
  }
}

int64_t length(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(count_code_points(v.view()));
    case Kind::kSequence:
      return static_cast<int64_t>(v.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(v.as_dict().items.size());
    default:
      throw RenderError(str("object of type '", type_name(v), "' has no len()"));
  }
}

bool contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_undefined()) throw RenderError("'in <string>' requires string as left operand, not Undefined");
    if (!item.is_string()) {
      throw RenderError(str("'in <string>' requires string as left operand, not ", type_name(item)));
    }
    return find_text(container.view(), item.view()) != std::string_view::npos;
  }
  if (container.is_dict()) return container.as_dict().find(item) != nullptr;
  if (container.is_sequence()) {
    const auto& items = container.items();
    return std::any_of(items.begin(), items.end(), [&](const Value& x) { return equal(x, item); });
  }
  if (!container.is_undefined() && !container.is(Kind::kIterator)) {
    throw RenderError(str("argument of type '", type_name(container), "' is not iterable"));
  }
  const std::vector<Value> items = iterate(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& x) { return equal(x, item); });
}

std::string undefined_message(const Value& v) {
  const std::string why = v.undefined_reason();
  return why.empty() ? "a value is undefined" : why;
}

}  // namespace loci::jinja
