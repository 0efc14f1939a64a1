// Value: what a template computes with; the data model is Python's. Values that hold other values are immutable
// (Jinja's immutable sandbox), namespaces excepted, so that a Value is cheap to copy and never part of a cycle.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/jinja/text.h"

namespace loci::jinja {

// Most levels that lists and dicts may be nested: bounds every recursion over a value.
inline constexpr uint32_t kMaxDepth = 200;
// Largest size of a value, counted as a tree: one for each value in it and each 64 bytes of text. Lists that hold the
// same list twice, and again twice, grow without bound only in this count.
inline constexpr uint64_t kMaxWeight = 2'000'000;

class Value;

struct Object {
  virtual ~Object() = default;
  uint32_t depth = 0;   // 1 + the deepest value held; <= kMaxDepth
  uint64_t weight = 1;  // <= kMaxWeight

  // Accounts for a value held. Throws RenderError above a limit.
  void hold(const Value& v);
};

struct String;
struct Sequence;
struct Dict;
struct Iterator;
struct Namespace;
struct Callable;
struct UndefinedInfo;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,  // list, tuple, range, dict view
  kDict,
  kIterator,  // can be walked once
  kNamespace,
  kCallable,  // macro, function, bound method, loop, cycler, joiner
};

enum class SequenceKind : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems };

class Value {
 public:
  Value() = default;  // undefined
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b);
  static Value integer(int64_t i);
  static Value number(double d);
  static Value string(Text text, bool markup = false);
  static Value string(std::string bytes, Origin origin = Origin::kTemplate) {
    return string(Text(std::move(bytes), origin));
  }
  // Throw RenderError when the value would be nested too deeply.
  static Value sequence(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
  static Value dict(std::vector<std::pair<Value, Value>> items);  // later duplicates win, keeping the first place
  static Value iterator(std::vector<Value> items, const char* type_name = "generator");
  // An undefined value that tells why when it is used; `security`: a forbidden attribute.
  static Value undefined(std::string why);
  static Value object(Kind kind, std::shared_ptr<Object> object) { return Value(kind, std::move(object)); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_sequence() const { return kind_ == Kind::kSequence; }
  bool is_list() const;
  bool is_int_like() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }  // Python: a bool is an int
  bool is_number() const { return is_int_like() || kind_ == Kind::kFloat; }

  // REQUIRES of the following: the kind fits.
  bool as_bool() const { return bool_; }
  int64_t as_int() const { return kind_ == Kind::kBool ? bool_ : int_; }
  double as_double() const { return kind_ == Kind::kFloat ? double_ : static_cast<double>(as_int()); }
  const Text& text() const;
  std::string_view view() const { return text().view(); }
  bool is_markup() const;
  const std::vector<Value>& items() const;
  SequenceKind sequence_kind() const;
  const Dict& as_dict() const;
  Iterator& as_iterator() const;
  Namespace& as_namespace() const;
  Callable& as_callable() const;
  std::string undefined_reason() const;  // "" when none was given

  // Same object (Python's `is`).
  bool same_as(const Value& other) const;
  uint32_t depth() const { return object_ ? object_->depth : 0; }
  uint64_t weight() const { return object_ ? object_->weight : 1; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind_ = Kind::kUndefined;
  union {
    bool bool_;
    int64_t int_ = 0;
    double double_;
  };
  std::shared_ptr<Object> object_;
};

struct UndefinedInfo : Object {
  std::string why;
};

struct String : Object {
  Text text;
  bool markup = false;  // made by `safe` or `escape`: text joined to it by + is HTML-escaped
};

struct Sequence : Object {
  std::vector<Value> items;
  SequenceKind kind = SequenceKind::kList;
};

struct Iterator : Object {
  std::vector<Value> items;
  size_t next = 0;
  const char* type_name = "generator";
};

// Keys: strings, numbers, bools, None, tuples of these. Order of insertion.
struct Dict : Object {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string_view, size_t> index;  // of string keys, when there are many

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

// The one mutable value. Owned by the render in progress, which empties it at the end: it may be part of a cycle.
struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> fields;
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
};

// Something went wrong while rendering. Template::render() adds the line and makes an Error of it.
struct RenderError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ---- Python's operations on values; they throw RenderError with Python's reason.

bool truth(const Value& v);
bool equal(const Value& a, const Value& b);
// < 0, 0, > 0. Throws when Python has no order for the two; `op` is for the message.
int compare(const Value& a, const Value& b, const char* op = "<");
bool hashable(const Value& v);
// "str", "list", "NoneType", ...
const char* type_name(const Value& v);
// First place of `part` in `text` at or behind `from`, npos when there is none. Linear in the worst case too.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
// What `for` walks over: items, keys, code points. Throws for numbers, None, ...
std::vector<Value> iterate(const Value& v);
int64_t length(const Value& v);
bool contains(const Value& container, const Value& item);
std::string undefined_message(const Value& v);

}  // namespace loci::jinja
