// Interpreter: walks the tree of one template for one render. Used by Template::render() alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/text/jinja/runtime.h"
#include "engine/text/jinja/template.h"

namespace loci::jinja {

// Variables of one block. Looked up outwards; assigned in the innermost scope alone.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;

  void set(Symbol symbol, Value value);
};

class Interpreter : public Runtime {
 public:
  Interpreter(const Ast& ast, const Variables& variables, const std::string& now, const Limits& limits);
  ~Interpreter() override;

  Text run();
  int line() const { return line_; }  // of the evaluation in progress, or of the one that failed

  void charge(uint64_t steps) override;
  void charge_bytes(uint64_t bytes) override;
  Value call(const Value& function, Args args) override;
  Value filter(const std::string& name, Args args) override;
  bool test(const std::string& name, Args args) override;
  Value make_namespace(std::vector<std::pair<std::string, Value>> fields) override;
  const std::string& now() override;

 private:
  friend struct Macro;
  friend struct Loop;
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  struct Depth;

  Text text_of(const Value& v);  // str(v)
  void output(const Text& text);
  void charge_operand(const Args& args);
  Flow run_body(const std::vector<Stmt*>& body);
  Flow run_statement(const Stmt& s);
  Flow run_if(const Stmt& s);
  void run_for(const Stmt& s, const Value& sequence, int depth);
  void run_set(const Stmt& s);
  void run_call_block(const Stmt& s);
  void run_with(const Stmt& s);
  // Runs a body in a new scope and returns what it wrote.
  Text capture(const std::vector<Stmt*>& body, std::shared_ptr<Scope> scope);
  Value apply_filters(const Expr* chain, Value operand);
  Value call_macro(const struct Macro& macro, Args args);

  void assign(const Target& target, Value value, Scope& scope);
  Value lookup(Symbol symbol);
  std::shared_ptr<Scope> child_scope();
  void capture_scope();  // notes that something may outlive the block with a reference to its scope

  Value evaluate(const Expr& e);
  Value evaluate_operator(const Expr& e);
  Value evaluate_call(const Expr& e);
  Value evaluate_filter(const Expr& e);
  Value evaluate_test(const Expr& e);
  Value evaluate_compare(const Expr& e);
  Value evaluate_collection(const Expr& e);
  Value evaluate_slice(const Expr& e);
  Value evaluate_concat(const Expr& e);
  void collect(const CallArgs& from, Args& into);

  const Ast& ast_;
  const Limits& limits_;
  std::string now_;
  uint64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::vector<Value> undefined_names_;  // by symbol, made when first needed
  std::shared_ptr<Scope> scope_;
  std::vector<Value> globals_;  // by symbol: the variables given and the functions; undefined when there is none
  std::vector<bool> has_global_;
  Text* out_ = nullptr;
  // What may be part of a cycle; emptied at the end.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
};

}  // namespace loci::jinja
