#include "engine/text/jinja/interpreter.h"

#include <algorithm>

#include "engine/text/jinja/lexer.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/strftime.h"
#include "engine/text/jinja/to_text.h"
#include "kernels/error.h"

namespace loci::jinja {

// A macro, or the caller() of a call block, with the scope it was defined in.
struct Macro : Callable {
  Macro(const Stmt& statement, std::string macro_name, std::shared_ptr<Scope> defined_in)
      : definition(statement), name(std::move(macro_name)), closure(std::move(defined_in)) {}
  Value call(Runtime& runtime, Args args) override {
    return static_cast<Interpreter&>(runtime).call_macro(*this, std::move(args));
  }
  std::string repr() const override { return "<Macro '" + name + "'>"; }
  Value attribute(std::string_view attribute_name) const override {
    return attribute_name == "name" ? Value::string(name) : Value();
  }
  const Stmt& definition;
  std::string name;
  std::shared_ptr<Scope> closure;
};

// The variable `loop`.
struct Loop : Callable, std::enable_shared_from_this<Loop> {
  Loop(const Stmt& statement, std::vector<Value> values, int loop_depth)
      : definition(statement), items(std::move(values)), level(loop_depth) {
    for (const Value& v : items) hold(v);
  }

  // loop(sequence): the same loop over other items.
  Value call(Runtime& runtime, Args args) override {
    if (!definition.recursive) {
      throw RenderError("The loop must have the 'recursive' marker to be called recursively.");
    }
    const Bound bound(args, "loop", {"iterable"}, 1);
    auto& interpreter = static_cast<Interpreter&>(runtime);
    Text text;
    Text* const outer = std::exchange(interpreter.out_, &text);
    const std::shared_ptr<Scope> scope = std::exchange(interpreter.scope_, closure);
    interpreter.run_for(definition, bound[0], level + 1);
    interpreter.scope_ = scope;
    interpreter.out_ = outer;
    return Value::string(std::move(text));
  }
  std::string repr() const override { return str("<LoopContext ", index + 1, "/", items.size(), ">"); }

  Value attribute(std::string_view name) const override {
    const auto size = static_cast<int64_t>(items.size()), i = static_cast<int64_t>(index);
    if (name == "index") return Value::integer(i + 1);
    if (name == "index0") return Value::integer(i);
    if (name == "first") return Value::boolean(i == 0);
    if (name == "last") return Value::boolean(i + 1 == size);
    if (name == "length") return Value::integer(size);
    if (name == "revindex") return Value::integer(size - i);
    if (name == "revindex0") return Value::integer(size - i - 1);
    if (name == "depth") return Value::integer(level + 1);
    if (name == "depth0") return Value::integer(level);
    if (name == "previtem") return i > 0 ? items[index - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem") return i + 1 < size ? items[index + 1] : Value::undefined("there is no next item");
    if (name == "cycle" || name == "changed") return method(name == "cycle");
    return Value();
  }

  Value method(bool cycles) const;

  const Stmt& definition;
  std::vector<Value> items;
  size_t index = 0;
  int level;
  std::shared_ptr<Scope> closure;  // set for recursive loops
  std::optional<Value> last_changed;
};

// loop.cycle and loop.changed. The loop is kept by the scope it runs in; a method that outlives it fails politely.
struct LoopMethod : Callable {
  LoopMethod(std::weak_ptr<Loop> of, bool is_cycle) : loop(std::move(of)), cycles(is_cycle) {}
  Value call(Runtime&, Args args) override {
    const std::shared_ptr<Loop> target = loop.lock();
    if (target == nullptr) throw RenderError("the loop has ended");
    if (cycles) {
      if (args.positional.empty()) throw RenderError("no items for cycling given");
      return args.positional[target->index % args.positional.size()];
    }
    Value now = Value::sequence(std::move(args.positional), SequenceKind::kTuple);
    const bool changed = !target->last_changed || !equal(*target->last_changed, now);
    if (changed) target->last_changed = std::move(now);
    return Value::boolean(changed);
  }
  std::string repr() const override {
    return cycles ? "<bound method LoopContext.cycle>" : "<bound method LoopContext.changed>";
  }
  std::weak_ptr<Loop> loop;
  bool cycles;
};

Value Loop::method(bool cycles) const {
  const std::weak_ptr<const Loop> self = weak_from_this();
  return Value::object(Kind::kCallable,
                       std::make_shared<LoopMethod>(std::const_pointer_cast<Loop>(self.lock()), cycles));
}

void Scope::set(Symbol symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

struct Interpreter::Depth {
  explicit Depth(Interpreter& i) : interpreter(i) {
    if (++interpreter.depth_ > interpreter.limits_.max_depth) {
      --interpreter.depth_;
      throw RenderError(str("evaluation is nested more than ", interpreter.limits_.max_depth,
                            " levels deep (a macro that calls itself without end?)"));
    }
  }
  ~Depth() { --interpreter.depth_; }
  Interpreter& interpreter;
};

Interpreter::Interpreter(const Ast& ast, const Variables& variables, const std::string& now, const Limits& limits)
    : ast_(ast),
      limits_(limits),
      now_(now),
      undefined_names_(ast.symbols.size()),
      scope_(std::make_shared<Scope>()),
      globals_(ast.symbols.size()),
      has_global_(ast.symbols.size()) {
  for (size_t i = 0; i < ast.symbols.size(); ++i) {
    globals_[i] = find_global(ast.symbols[i]);
    has_global_[i] = !globals_[i].is_undefined();
  }
  for (const auto& [name, value] : variables) {
    const auto it = ast.symbol_ids.find(name);
    if (it == ast.symbol_ids.end()) continue;
    globals_[it->second] = value;
    has_global_[it->second] = !value.is_undefined();
  }
}

Interpreter::~Interpreter() {
  for (const auto& ns : namespaces_) ns->fields.clear();
  for (const auto& scope : captured_scopes_) scope->variables.clear();
}

Text Interpreter::run() {
  Text text;
  out_ = &text;
  run_body(ast_.body);
  return text;
}

void Interpreter::charge(uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.max_steps) throw RenderError(str("needs more than ", limits_.max_steps, " steps to render"));
}

void Interpreter::charge_bytes(uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.max_bytes) {
    throw RenderError(str("makes more than ", limits_.max_bytes >> 20, " MiB of text and lists"));
  }
}

const std::string& Interpreter::now() {
  if (now_.empty()) now_ = local_time();
  return now_;
}

Value Interpreter::make_namespace(std::vector<std::pair<std::string, Value>> fields) {
  charge_bytes(fields.size() * sizeof(Value));
  auto ns = std::make_shared<Namespace>();
  for (auto& [name, value] : fields) ns->set(name, std::move(value));
  namespaces_.push_back(ns);
  return Value::object(Kind::kNamespace, std::move(ns));
}

// ---- Statements.

Text Interpreter::text_of(const Value& v) {
  if (!v.is_string()) charge(v.weight());
  return to_text(v);
}

void Interpreter::output(const Text& text) {
  charge_bytes(text.size());
  if (out_->size() + text.size() > limits_.max_output_bytes) {
    throw RenderError(str("writes more than ", limits_.max_output_bytes >> 20, " MiB"));
  }
  out_->append(text);
}

Interpreter::Flow Interpreter::run_body(const std::vector<Stmt*>& body) {
  const Depth depth(*this);
  for (const Stmt* s : body) {
    const Flow flow = run_statement(*s);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& s) {
  charge(1);
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::kData:
      output(s.text.text());
      break;
    case StmtKind::kOutput:
      output(text_of(evaluate(*s.value)));
      break;
    case StmtKind::kIf:
      return run_if(s);
    case StmtKind::kFor:
      run_for(s, evaluate(*s.value), 0);
      break;
    case StmtKind::kSet:
    case StmtKind::kSetBlock:
      run_set(s);
      break;
    case StmtKind::kMacro: {
      capture_scope();
      auto macro = std::make_shared<Macro>(s, ast_.symbols[s.symbol], scope_);
      scope_->set(s.symbol, Value::object(Kind::kCallable, std::move(macro)));
      break;
    }
    case StmtKind::kCallBlock:
      run_call_block(s);
      break;
    case StmtKind::kFilterBlock:
      output(to_text(apply_filters(s.value, Value::string(capture(s.body, child_scope())))));
      break;
    case StmtKind::kWith:
      run_with(s);
      break;
    case StmtKind::kScope: {
      const std::shared_ptr<Scope> outer = std::exchange(scope_, child_scope());
      const Flow flow = run_body(s.body);
      scope_ = outer;
      return flow;
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Stmt& first) {
  const Stmt* s = &first;
  for (;;) {
    if (truth(evaluate(*s->value))) return run_body(s->body);
    // An elif is walked to, not recursed into.
    const bool is_elif = s->orelse.size() == 1 && s->orelse[0]->kind == StmtKind::kIf;
    if (!is_elif) return run_body(s->orelse);
    s = s->orelse[0];
    charge(1);
    line_ = s->line;
  }
}

void Interpreter::run_for(const Stmt& s, const Value& sequence, int level) {
  const Depth depth(*this);
  if (sequence.is_none() || sequence.is_number()) line_ = s.line;
  std::vector<Value> items = walk(*this, sequence);
  const std::shared_ptr<Scope> outer = scope_;
  if (s.test != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scope_ = child_scope();
      assign(s.target, item, *scope_);
      if (truth(evaluate(*s.test))) kept.push_back(std::move(item));
      scope_ = outer;
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    if (!s.orelse.empty()) {
      scope_ = child_scope();
      run_body(s.orelse);
      scope_ = outer;
    }
    return;
  }
  static const std::string kLoop = "loop";
  const auto loop_symbol = ast_.symbol_ids.find(kLoop);
  auto loop = std::make_shared<Loop>(s, std::move(items), level);
  if (s.recursive) {
    loop->closure = outer;
    capture_scope();
  }
  const Value loop_value = Value::object(Kind::kCallable, loop);
  // loop.changed(loop) would be a cycle.
  struct Release {
    ~Release() { loop.last_changed.reset(); }
    Loop& loop;
  } const release{*loop};
  std::shared_ptr<Scope> scope;
  for (; loop->index < loop->items.size(); ++loop->index) {
    charge(1);
    if (scope != nullptr && scope.use_count() == 1) {
      scope->variables.clear();
    } else {
      scope = child_scope();
      scope->parent = outer;
    }
    if (loop_symbol != ast_.symbol_ids.end()) scope->variables.emplace_back(loop_symbol->second, loop_value);
    line_ = s.line;
    assign(s.target, loop->items[loop->index], *scope);
    scope_ = scope;
    const Flow flow = run_body(s.body);
    scope_ = outer;
    if (flow == Flow::kBreak) break;
  }
}

Text Interpreter::capture(const std::vector<Stmt*>& body, std::shared_ptr<Scope> scope) {
  Text text;
  Text* const outer_out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
  run_body(body);
  scope_ = outer;
  out_ = outer_out;
  return text;
}

void Interpreter::run_set(const Stmt& s) {
  if (s.kind == StmtKind::kSet) {
    Value value = evaluate(*s.value);
    line_ = s.line;
    assign(s.target, std::move(value), *scope_);
    return;
  }
  Value text = Value::string(capture(s.body, child_scope()));
  if (s.value != nullptr) text = apply_filters(s.value, std::move(text));
  assign(s.target, std::move(text), *scope_);
}

void Interpreter::run_call_block(const Stmt& s) {
  capture_scope();
  const Value caller = Value::object(Kind::kCallable, std::make_shared<Macro>(s, "caller", scope_));
  const Expr& call_expr = *s.value;
  Value function = evaluate(*call_expr.a);
  Args args;
  collect(call_expr.call, args);
  args.keyword.emplace_back("caller", caller);
  line_ = s.line;
  output(to_text(call(function, std::move(args))));
}

void Interpreter::run_with(const Stmt& s) {
  // Values are evaluated outside, one after the other.
  std::shared_ptr<Scope> scope = child_scope();
  for (size_t i = 0; i < s.values.size(); ++i) assign(s.targets[i], evaluate(*s.values[i]), *scope);
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
  run_body(s.body);
  scope_ = outer;
}

Value Interpreter::apply_filters(const Expr* chain, Value operand) {
  if (chain == nullptr) return operand;
  Args args;
  args.positional.push_back(apply_filters(chain->a, std::move(operand)));
  collect(chain->call, args);
  line_ = chain->line;
  return filter(chain->name, std::move(args));
}

Value Interpreter::call_macro(const Macro& macro, Args args) {
  const Depth depth(*this);
  const Stmt& s = macro.definition;
  auto scope = std::make_shared<Scope>();
  scope->parent = macro.closure;
  const size_t n = s.params.size();
  if (args.positional.size() > n && !s.uses_varargs) {
    throw RenderError(str("macro '", macro.name, "' takes not more than ", n, " argument(s)"));
  }
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    for (auto it = args.keyword.begin(); it != args.keyword.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      args.keyword.erase(it);
      return value;
    }
    return std::nullopt;
  };
  const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
  const int call_line = line_;
  for (size_t i = 0; i < n; ++i) {
    const Param& param = s.params[i];
    const std::string& name = ast_.symbols[param.symbol];
    if (i < args.positional.size()) {
      scope->set(param.symbol, args.positional[i]);
    } else if (std::optional<Value> value = take(name)) {
      scope->set(param.symbol, std::move(*value));
    } else if (param.fallback != nullptr) {
      scope->set(param.symbol, evaluate(*param.fallback));
    } else {
      scope->set(param.symbol, Value::undefined(str("parameter '", name, "' was not provided")));
    }
  }
  line_ = call_line;
  std::optional<Value> caller = take("caller");
  if (s.uses_caller) {
    scope->set(ast_.symbol_ids.at("caller"), caller ? std::move(*caller) : Value::undefined("No caller defined"));
  } else if (caller) {
    args.keyword.emplace_back("caller", *caller);
  }
  if (s.uses_kwargs) {
    std::vector<std::pair<Value, Value>> rest;
    for (auto& [name, value] : args.keyword) rest.emplace_back(Value::string(name), std::move(value));
    scope->set(ast_.symbol_ids.at("kwargs"), Value::dict(std::move(rest)));
  } else if (!args.keyword.empty()) {
    throw RenderError(str("macro '", macro.name, "' takes no keyword argument '", args.keyword[0].first, "'"));
  }
  if (s.uses_varargs) {
    const size_t used = std::min(n, args.positional.size());
    std::vector<Value> rest(args.positional.begin() + static_cast<ptrdiff_t>(used), args.positional.end());
    scope->set(ast_.symbol_ids.at("varargs"), Value::sequence(std::move(rest), SequenceKind::kTuple));
  }
  Text text = capture(s.body, scope);
  scope_ = outer;
  line_ = call_line;
  return Value::string(std::move(text));
}

// ---- Variables.

void Interpreter::capture_scope() {
  if (!captured_scopes_.empty() && captured_scopes_.back() == scope_) return;
  charge_bytes(256);
  captured_scopes_.push_back(scope_);
}

std::shared_ptr<Scope> Interpreter::child_scope() {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

void Interpreter::assign(const Target& target, Value value, Scope& scope) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope.set(target.symbol, std::move(value));
      break;
    case Target::Kind::kField: {
      const Value owner = lookup(target.symbol);
      if (!owner.is(Kind::kNamespace)) throw RenderError("cannot assign attribute on non-namespace object");
      charge_bytes(sizeof(Value));
      owner.as_namespace().set(target.field, std::move(value));
      break;
    }
    case Target::Kind::kTuple: {
      if (!value.is_string() && !value.is_sequence() && !value.is_dict() && !value.is(Kind::kIterator) &&
          !value.is_undefined()) {
        throw RenderError(str("cannot unpack non-iterable ", type_name(value), " object"));
      }
      const std::vector<Value> parts = walk(*this, value);
      const size_t n = target.parts.size();
      if (parts.size() < n) {
        throw RenderError(str("not enough values to unpack (expected ", n, ", got ", parts.size(), ")"));
      }
      if (parts.size() > n) throw RenderError(str("too many values to unpack (expected ", n, ")"));
      for (size_t i = 0; i < n; ++i) assign(target.parts[i], parts[i], scope);
      break;
    }
  }
}

Value Interpreter::lookup(Symbol symbol) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return value;
    }
  }
  if (has_global_[symbol]) return globals_[symbol];
  Value& undefined = undefined_names_[symbol];
  if (undefined.undefined_reason().empty())
    undefined = Value::undefined(str("'", ast_.symbols[symbol], "' is undefined"));
  return undefined;
}

// ---- Expressions. evaluate() itself is small: its frame is what recursion costs.

Value Interpreter::evaluate(const Expr& e) {
  switch (e.kind) {  // leaves need no bookkeeping
    case ExprKind::kConstant:
      return e.constant;
    case ExprKind::kName:
      return lookup(e.symbol);
    default:
      break;
  }
  const Depth depth(*this);
  charge(1);
  switch (e.kind) {
    case ExprKind::kAttribute: {
      const Value object = evaluate(*e.a);
      line_ = e.line;
      return attribute(object, e.name);
    }
    case ExprKind::kItem: {
      const Value object = evaluate(*e.a);
      const Value key = evaluate(*e.b);
      line_ = e.line;
      if (key.is_sequence()) charge(key.weight());
      if (object.is_string()) charge(object.weight());
      return item(object, key);
    }
    case ExprKind::kSlice:
      return evaluate_slice(e);
    case ExprKind::kCall:
      return evaluate_call(e);
    case ExprKind::kFilter:
      return evaluate_filter(e);
    case ExprKind::kTest:
      return evaluate_test(e);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return evaluate_collection(e);
    case ExprKind::kAnd: {
      Value left = evaluate(*e.a);
      return truth(left) ? evaluate(*e.b) : left;
    }
    case ExprKind::kOr: {
      Value left = evaluate(*e.a);
      return truth(left) ? left : evaluate(*e.b);
    }
    case ExprKind::kNot:
      return Value::boolean(!truth(evaluate(*e.a)));
    case ExprKind::kConditional: {
      if (truth(evaluate(*e.b))) return evaluate(*e.a);
      if (e.c != nullptr) return evaluate(*e.c);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
    }
    case ExprKind::kCompare:
      return evaluate_compare(e);
    case ExprKind::kConcat:
      return evaluate_concat(e);
    default:
      return evaluate_operator(e);
  }
}

Value Interpreter::evaluate_operator(const Expr& e) {
  const Value left = evaluate(*e.a);
  if (e.kind == ExprKind::kBinary) {
    const Value right = evaluate(*e.b);
    line_ = e.line;
    return binary(*this, e.op, left, right);
  }
  line_ = e.line;
  return e.kind == ExprKind::kNegative ? negative(left) : positive(left);
}

Value Interpreter::evaluate_slice(const Expr& e) {
  const Value object = evaluate(*e.a);
  const Value start = e.b != nullptr ? evaluate(*e.b) : Value::none();
  const Value stop = e.c != nullptr ? evaluate(*e.c) : Value::none();
  const Value step = e.d != nullptr ? evaluate(*e.d) : Value::none();
  line_ = e.line;
  if (object.is_string()) charge(object.weight());
  return slice(*this, object, start, stop, step);
}

Value Interpreter::evaluate_concat(const Expr& e) {
  Text text;
  for (const Expr* arg : e.args) {
    const Text part = text_of(evaluate(*arg));
    charge_bytes(part.size());
    text.append(part);
  }
  return Value::string(std::move(text));
}

Value Interpreter::evaluate_compare(const Expr& e) {
  Value left = evaluate(*e.a);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.args[i]);
    line_ = e.line;
    const bool is_search = e.ops[i] == Op::kIn || e.ops[i] == Op::kNotIn;
    if (is_search)
      charge(right.is_string() ? right.weight() : right.is_dict() ? 1 : right.weight() / 8 + left.weight() / 8);
    else
      charge(std::min(left.weight(), right.weight()) / 8);
    if (!compare_op(e.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_collection(const Expr& e) {
  charge_bytes(e.args.size() * sizeof(Value));
  if (e.kind == ExprKind::kDict) {
    std::vector<std::pair<Value, Value>> items;
    items.reserve(e.args.size() / 2);
    for (size_t i = 0; i < e.args.size(); i += 2) {
      Value key = evaluate(*e.args[i]);
      if (!hashable(key)) {
        line_ = e.line;
        throw RenderError(str("unhashable type: '", type_name(key), "'"));
      }
      items.emplace_back(std::move(key), evaluate(*e.args[i + 1]));
    }
    return Value::dict(std::move(items));
  }
  std::vector<Value> items;
  items.reserve(e.args.size());
  for (const Expr* arg : e.args) items.push_back(evaluate(*arg));
  return Value::sequence(std::move(items), e.kind == ExprKind::kTuple ? SequenceKind::kTuple : SequenceKind::kList);
}

void Interpreter::collect(const CallArgs& from, Args& into) {
  into.positional.reserve(into.positional.size() + from.positional.size());
  for (const Expr* e : from.positional) into.positional.push_back(evaluate(*e));
  for (const auto& [name, e] : from.keyword) into.keyword.emplace_back(name, evaluate(*e));
  if (from.star != nullptr) {
    for (Value& v : walk(*this, evaluate(*from.star))) into.positional.push_back(std::move(v));
  }
  if (from.double_star != nullptr) {
    const Value more = evaluate(*from.double_star);
    if (!more.is_dict()) throw RenderError("argument after ** must be a mapping");
    for (const auto& [key, value] : more.as_dict().items) {
      if (!key.is_string()) throw RenderError("keywords must be strings");
      into.keyword.emplace_back(std::string(key.view()), value);
    }
  }
}

Value Interpreter::evaluate_call(const Expr& e) {
  Args args;
  if (e.a->kind == ExprKind::kAttribute) {
    // A method is called straight away, without an object for it.
    const Value self = evaluate(*e.a->a);
    line_ = e.line;
    require_defined(self);
    if (const Builtin method = find_method(self, e.a->name)) {
      args.positional.push_back(self);
      collect(e.call, args);
      line_ = e.line;
      if (self.is_string()) charge(self.weight());
      return method(*this, args);
    }
    const Value function = attribute(self, e.a->name);
    collect(e.call, args);
    line_ = e.line;
    return call(function, std::move(args));
  }
  const Value function = evaluate(*e.a);
  collect(e.call, args);
  line_ = e.line;
  return call(function, std::move(args));
}

Value Interpreter::evaluate_filter(const Expr& e) {
  Args args;
  args.positional.push_back(evaluate(*e.a));
  collect(e.call, args);
  line_ = e.line;
  return filter(e.name, std::move(args));
}

Value Interpreter::evaluate_test(const Expr& e) {
  Args args;
  args.positional.push_back(evaluate(*e.a));
  collect(e.call, args);
  line_ = e.line;
  return Value::boolean(test(e.name, std::move(args)));
}

// ---- Calls.

Value Interpreter::call(const Value& function, Args args) {
  require_defined(function);
  if (!function.is(Kind::kCallable)) throw RenderError(str("'", type_name(function), "' object is not callable"));
  charge(1);
  return function.as_callable().call(*this, std::move(args));
}

// Most operations read a text from end to end.
void Interpreter::charge_operand(const Args& args) {
  charge(!args.positional.empty() && args.positional[0].is_string() ? args.positional[0].weight() : 1);
}

Value Interpreter::filter(const std::string& name, Args args) {
  const Builtin function = find_filter(name);
  if (function == nullptr) throw RenderError(str("No filter named '", name, "' found."));
  charge_operand(args);
  return function(*this, args);
}

bool Interpreter::test(const std::string& name, Args args) {
  const Builtin function = find_test(name);
  if (function == nullptr) throw RenderError(str("No test named '", name, "' found."));
  charge_operand(args);
  return truth(function(*this, args));
}

// ---- Template.

Template Template::parse(const std::string& source) { return Template(jinja::parse(source)); }

Text Template::render(const Variables& variables, const std::string& now, const Limits& limits) const {
  Interpreter interpreter(ast_, variables, now, limits);
  try {
    return interpreter.run();
  } catch (const RenderError& error) {
    fail_at(interpreter.line(), error.what());
  }
}

}  // namespace loci::jinja
