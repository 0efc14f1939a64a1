// The parsed template: expressions and statements as plain nodes, owned by an Ast and linked by raw pointers.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/jinja/value.h"

namespace loci::jinja {

using Symbol = uint32_t;  // a variable's name, as an index into Ast::symbols

enum class ExprKind : uint8_t {
  kConstant,     // constant
  kName,         // symbol
  kAttribute,    // a . name
  kItem,         // a [ b ]
  kSlice,        // a [ b : c : d ], each of b, c, d may be null
  kCall,         // a ( call )
  kFilter,       // a | name ( call ); a is null in a filter block
  kTest,         // a is name ( call )
  kList,         // args
  kTuple,        // args
  kDict,         // args: key, value, key, value, ...
  kNot,          // a
  kNegative,     // a
  kPositive,     // a
  kBinary,       // a op b
  kConcat,       // args, joined by ~
  kAnd,          // a, b
  kOr,           // a, b
  kCompare,      // a ops[0] args[0] ops[1] args[1] ...
  kConditional,  // a if b else c; c may be null
};

enum class Op : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;

struct CallArgs {
  std::vector<Expr*> positional;
  std::vector<std::pair<std::string, Expr*>> keyword;
  Expr* star = nullptr;         // *args
  Expr* double_star = nullptr;  // **kwargs
};

struct Expr {
  ExprKind kind;
  Op op = Op::kAdd;
  int line = 1;
  uint32_t depth = 1;  // of the tree below
  Symbol symbol = 0;
  Expr *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
  std::string name;
  Value constant;
  std::vector<Expr*> args;
  std::vector<Op> ops;
  CallArgs call;
};

enum class StmtKind : uint8_t {
  kData,         // text
  kOutput,       // value
  kFor,          // target in value [if test]: body, else: orelse
  kIf,           // value: body, else: orelse (elif is an If alone in orelse)
  kSet,          // target = value
  kSetBlock,     // target = body, through filters (value, innermost filter has no operand) when given
  kMacro,        // symbol(params): body
  kCallBlock,    // call(params) value: body
  kFilterBlock,  // value: chain of filters, body
  kWith,         // targets[i] = values[i]: body
  kScope,        // body in a scope of its own: block, generation, autoescape
  kBreak,
  kContinue,
};

// What is assigned to: a name, a field of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : uint8_t { kName, kField, kTuple } kind = Kind::kName;
  Symbol symbol = 0;
  std::string field;
  std::vector<Target> parts;
};

struct Param {
  Symbol symbol;
  Expr* fallback = nullptr;
};

struct Stmt {
  StmtKind kind;
  int line = 1;
  bool recursive = false;     // for ... recursive
  bool uses_varargs = false;  // macro and call block: the body reads varargs, kwargs, caller
  bool uses_kwargs = false;
  bool uses_caller = false;
  Symbol symbol = 0;
  Value text;
  Target target;
  Expr* value = nullptr;
  Expr* test = nullptr;
  std::vector<Stmt*> body, orelse;
  std::vector<Param> params;
  std::vector<Target> targets;
  std::vector<Expr*> values;
};

struct Ast {
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::vector<Stmt*> body;
  std::vector<std::string> symbols;
  std::unordered_map<std::string, Symbol> symbol_ids;

  Symbol intern(const std::string& name) {
    const auto [it, added] = symbol_ids.emplace(name, static_cast<Symbol>(symbols.size()));
    if (added) symbols.push_back(name);
    return it->second;
  }
};

// Throws Error(kInvalidInput) naming line and cause. Nesting is limited, so that a walk over the tree can recurse.
Ast parse(const std::string& source);

}  // namespace loci::jinja
