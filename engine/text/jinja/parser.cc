// Recursive descent over Jinja's grammar, with its precedences: or, and, not, comparisons, + -, ~, * / // %, **, unary,
// postfix, filters and tests.
#include <algorithm>
#include <initializer_list>

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/lexer.h"
#include "kernels/error.h"

namespace loci::jinja {
namespace {

// Brackets, blocks and unary chains within each other. Each level costs about a dozen calls.
constexpr int kMaxNesting = 150;
// Longest chain of binary operators or postfixes; evaluation recurses along it.
constexpr uint32_t kMaxExprDepth = 800;

class Parser {
 public:
  explicit Parser(const std::string& source) : tokens_(tokenize(source)) {}

  Ast run() {
    ast_.body = statements({}, "");
    return std::move(ast_);
  }

 private:
  // ---- Tokens.

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = peek();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool at_op(std::string_view op) const { return is(peek(), TokenKind::kOperator, op); }
  bool at_name(std::string_view name) const { return is(peek(), TokenKind::kName, name); }
  bool skip_op(std::string_view op) { return at_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }

  static std::string describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kData:
        return "template text";
      case TokenKind::kOutputEnd:
        return "end of the print tag";
      case TokenKind::kBlockEnd:
        return "end of the tag";
      case TokenKind::kEnd:
        return "end of the template";
      case TokenKind::kString:
        return "a string";
      default:
        return "'" + token.text.substr(0, 40) + "'";
    }
  }
  [[noreturn]] void fail_here(const std::string& cause) const { fail_at(peek().line, cause); }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail_here(str("expected ", what, ", found ", describe(peek())));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_expected("'" + std::string(op) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected("'" + std::string(name) + "'");
  }
  std::string expect_identifier() {
    if (peek().kind != TokenKind::kName) fail_expected("a name");
    return next().text;
  }
  void expect_block_end() {
    if (peek().kind != TokenKind::kBlockEnd) fail_expected("the end of the tag");
    next();
  }

  struct Nesting {
    explicit Nesting(Parser& p) : parser(p) {
      if (++parser.nesting_ > kMaxNesting) parser.fail_here(str("nested more than ", kMaxNesting, " levels deep"));
    }
    ~Nesting() { --parser.nesting_; }
    Parser& parser;
  };

  // ---- Nodes.

  Expr* make(ExprKind kind, int line, std::initializer_list<Expr*> children = {}) {
    Expr& e = ast_.exprs.emplace_back();
    e.kind = kind;
    e.line = line;
    Expr** slots[] = {&e.a, &e.b, &e.c, &e.d};
    size_t i = 0;
    for (Expr* child : children) {
      *slots[i++] = child;
      deepen(e, child);
    }
    return &e;
  }
  void deepen(Expr& e, const Expr* child) {
    if (child == nullptr) return;
    e.depth = std::max(e.depth, child->depth + 1);
    if (e.depth > kMaxExprDepth) fail_at(e.line, str("an expression is more than ", kMaxExprDepth, " operations deep"));
  }
  void add_arg(Expr* e, Expr* child) {
    e->args.push_back(child);
    deepen(*e, child);
  }
  Expr* constant(Value value, int line) {
    Expr* e = make(ExprKind::kConstant, line);
    e->constant = std::move(value);
    return e;
  }
  Stmt* make_stmt(StmtKind kind, int line) {
    Stmt& s = ast_.stmts.emplace_back();
    s.kind = kind;
    s.line = line;
    return &s;
  }

  // ---- Expressions.

  Expr* expression() {
    const Nesting nesting(*this);
    Expr* value = or_();
    while (at_name("if")) {
      const int line = next().line;
      Expr* test = or_();
      Expr* orelse = skip_name("else") ? expression() : nullptr;
      value = make(ExprKind::kConditional, line, {value, test, orelse});
    }
    return value;
  }

  Expr* or_() {
    Expr* left = and_();
    while (at_name("or")) {
      const int line = next().line;
      left = make(ExprKind::kOr, line, {left, and_()});
    }
    return left;
  }

  Expr* and_() {
    Expr* left = not_();
    while (at_name("and")) {
      const int line = next().line;
      left = make(ExprKind::kAnd, line, {left, not_()});
    }
    return left;
  }

  Expr* not_() {
    if (!at_name("not")) return compare();
    const Nesting nesting(*this);
    const int line = next().line;
    return make(ExprKind::kNot, line, {not_()});
  }

  Expr* compare() {
    static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
                                                               {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
    Expr* left = sum();
    Expr* chain = nullptr;
    for (;;) {
      const int line = peek().line;
      std::optional<Op> op;
      for (const auto& [text, code] : kOps) {
        if (at_op(text)) op = code;
      }
      if (op) {
        next();
      } else if (skip_name("in")) {
        op = Op::kIn;
      } else if (at_name("not") && is(peek(1), TokenKind::kName, "in")) {
        next(), next();
        op = Op::kNotIn;
      } else {
        return chain != nullptr ? chain : left;
      }
      if (chain == nullptr) chain = make(ExprKind::kCompare, line, {left});
      chain->ops.push_back(*op);
      add_arg(chain, sum());
    }
  }

  Expr* binary(Op op, int line, Expr* left, Expr* right) {
    Expr* e = make(ExprKind::kBinary, line, {left, right});
    e->op = op;
    return e;
  }

  Expr* sum() {
    Expr* left = concat();
    while (at_op("+") || at_op("-")) {
      const Token& op = next();
      left = binary(op.text == "+" ? Op::kAdd : Op::kSub, op.line, left, concat());
    }
    return left;
  }

  Expr* concat() {
    Expr* first = product();
    if (!at_op("~")) return first;
    Expr* e = make(ExprKind::kConcat, peek().line);
    add_arg(e, first);
    while (skip_op("~")) add_arg(e, product());
    return e;
  }

  Expr* product() {
    Expr* left = power();
    for (;;) {
      const Token& token = peek();
      Op op;
      if (at_op("*"))
        op = Op::kMul;
      else if (at_op("/"))
        op = Op::kDiv;
      else if (at_op("//"))
        op = Op::kFloorDiv;
      else if (at_op("%"))
        op = Op::kMod;
      else
        return left;
      next();
      left = binary(op, token.line, left, power());
    }
  }

  Expr* power() {  // left-associative in Jinja
    Expr* left = unary(true);
    while (at_op("**")) {
      const int line = next().line;
      left = binary(Op::kPow, line, left, unary(true));
    }
    return left;
  }

  Expr* unary(bool with_filters) {
    Expr* e;
    if (at_op("-") || at_op("+")) {
      const Nesting nesting(*this);
      const Token& sign = next();
      e = make(sign.text == "-" ? ExprKind::kNegative : ExprKind::kPositive, sign.line, {unary(false)});
    } else {
      e = primary();
    }
    e = postfix(e);
    return with_filters ? filters_and_tests(e) : e;
  }

  Expr* primary() {
    const Token& token = peek();
    switch (token.kind) {
      case TokenKind::kName: {
        next();
        const std::string& name = token.text;
        if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
        if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
        if (name == "none" || name == "None") return constant(Value::none(), token.line);
        note_special(name);
        Expr* e = make(ExprKind::kName, token.line);
        e->symbol = ast_.intern(name);
        return e;
      }
      case TokenKind::kString: {
        std::string text;
        while (peek().kind == TokenKind::kString) text += next().text;
        return constant(Value::string(std::move(text)), token.line);
      }
      case TokenKind::kInteger:
        return constant(Value::integer(next().integer), token.line);
      case TokenKind::kFloat:
        return constant(Value::number(next().number), token.line);
      default:
        break;
    }
    if (at_op("(")) {
      next();
      Expr* e = tuple(true, true);
      expect_op(")");
      return e;
    }
    if (at_op("[")) {
      const int line = next().line;
      Expr* e = make(ExprKind::kList, line);
      while (!at_op("]")) {
        if (!e->args.empty()) expect_op(",");
        if (at_op("]")) break;
        add_arg(e, expression());
      }
      next();
      return e;
    }
    if (at_op("{")) {
      const int line = next().line;
      Expr* e = make(ExprKind::kDict, line);
      while (!at_op("}")) {
        if (!e->args.empty()) expect_op(",");
        if (at_op("}")) break;
        add_arg(e, expression());
        expect_op(":");
        add_arg(e, expression());
      }
      next();
      return e;
    }
    fail_expected("an expression");
  }

  // One expression, or several with commas: a tuple. `conditional`: "x if y" may occur.
  Expr* tuple(bool conditional, bool in_parentheses) {
    const int line = peek().line;
    const auto one = [&] { return conditional ? expression() : guarded_or(); };
    std::vector<Expr*> items;
    bool is_tuple = false;
    for (;;) {
      const bool ends = at_op(")") || peek().kind == TokenKind::kOutputEnd || peek().kind == TokenKind::kBlockEnd;
      if (ends) break;
      items.push_back(one());
      if (!at_op(",")) break;
      is_tuple = true;
      next();
    }
    if (!is_tuple && !items.empty()) return items[0];
    if (!is_tuple && !in_parentheses) fail_expected("an expression");
    Expr* e = make(ExprKind::kTuple, line);
    for (Expr* item : items) add_arg(e, item);
    return e;
  }
  Expr* guarded_or() {
    const Nesting nesting(*this);
    return or_();
  }

  Expr* postfix(Expr* e) {
    for (;;) {
      if (at_op(".")) {
        const int line = next().line;
        if (peek().kind == TokenKind::kInteger) {
          Expr* index = constant(Value::integer(peek().integer), line);
          next();
          e = make(ExprKind::kItem, line, {e, index});
        } else {
          if (peek().kind != TokenKind::kName) fail_expected("a name or number");
          e = make(ExprKind::kAttribute, line, {e});
          e->name = next().text;
        }
      } else if (at_op("[")) {
        e = subscript(e);
      } else if (at_op("(")) {
        e = call(e);
      } else {
        return e;
      }
    }
  }

  Expr* subscript(Expr* object) {
    const int line = next().line;
    const auto optional_part = [&]() -> Expr* {
      return at_op(":") || at_op("]") || at_op(",") ? nullptr : expression();
    };
    Expr* first = optional_part();
    if (at_op(":")) {
      next();
      Expr* stop = optional_part();
      Expr* step = skip_op(":") ? optional_part() : nullptr;
      if (!at_op("]")) fail_expected("']'");
      next();
      return make(ExprKind::kSlice, line, {object, first, stop, step});
    }
    if (first == nullptr) fail_expected("an expression");
    if (at_op(",")) {
      Expr* key = make(ExprKind::kTuple, line);
      add_arg(key, first);
      while (skip_op(",") && !at_op("]")) add_arg(key, expression());
      first = key;
    }
    expect_op("]");
    return make(ExprKind::kItem, line, {object, first});
  }

  Expr* call(Expr* function) {
    Expr* e = make(ExprKind::kCall, peek().line, {function});
    arguments(e);
    return e;
  }

  void arguments(Expr* e) {
    const int line = peek().line;
    CallArgs& args = e->call;
    expect_op("(");
    bool first = true;
    const auto ensure = [&](bool ok) {
      if (!ok) fail_at(line, "invalid syntax for a function call");
    };
    while (!at_op(")")) {
      if (!first) {
        expect_op(",");
        if (at_op(")")) break;
      }
      first = false;
      if (skip_op("*")) {
        ensure(args.star == nullptr && args.double_star == nullptr);
        args.star = expression();
        deepen(*e, args.star);
      } else if (skip_op("**")) {
        ensure(args.double_star == nullptr);
        args.double_star = expression();
        deepen(*e, args.double_star);
      } else if (peek().kind == TokenKind::kName && is(peek(1), TokenKind::kOperator, "=")) {
        ensure(args.double_star == nullptr);
        std::string name = next().text;
        next();
        Expr* value = expression();
        for (const auto& [other, unused] : args.keyword) {
          if (other == name) fail_at(line, str("keyword argument repeated: ", name));
        }
        args.keyword.emplace_back(std::move(name), value);
        deepen(*e, value);
      } else {
        ensure(args.star == nullptr && args.double_star == nullptr && args.keyword.empty());
        args.positional.push_back(expression());
        deepen(*e, args.positional.back());
      }
    }
    next();
  }

  std::string dotted_name() {
    std::string name = expect_identifier();
    while (skip_op(".")) name.append(1, '.').append(expect_identifier());
    return name;
  }

  // `operand` | name(args) | ...; the cursor is at the first '|', or behind it when `started`.
  Expr* filter_chain(Expr* operand, bool started) {
    while (started || at_op("|")) {
      if (!started) next();
      started = false;
      const int line = peek().line;
      Expr* e = make(ExprKind::kFilter, line, {operand});
      e->name = dotted_name();
      if (at_op("(")) arguments(e);
      operand = e;
    }
    return operand;
  }

  Expr* test(Expr* operand) {
    const int line = next().line;
    const bool negated = skip_name("not");
    Expr* e = make(ExprKind::kTest, line, {operand});
    e->name = dotted_name();
    const Token& token = peek();
    const bool is_operand =
        token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
        at_op("[") || at_op("{") ||
        (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" && token.text != "and");
    if (at_op("(")) {
      arguments(e);
    } else if (is_operand) {
      if (at_name("is")) fail_here("tests can't be chained with 'is'");
      Expr* argument = postfix(primary());
      e->call.positional.push_back(argument);
      deepen(*e, argument);
    }
    return negated ? make(ExprKind::kNot, line, {e}) : e;
  }

  Expr* filters_and_tests(Expr* e) {
    for (;;) {
      if (at_op("|"))
        e = filter_chain(e, false);
      else if (at_name("is"))
        e = test(e);
      else if (at_op("("))
        e = call(e);
      else
        return e;
    }
  }

  // ---- Statements.

  // Until a tag named by `ends`, whose name stays at the cursor; until the end of the template when `tag` is "".
  std::vector<Stmt*> statements(std::initializer_list<std::string_view> ends, const std::string& tag) {
    const Nesting nesting(*this);
    const int begin_line = peek().line;
    std::vector<Stmt*> body;
    for (;;) {
      const Token& token = peek();
      switch (token.kind) {
        case TokenKind::kEnd:
          if (!tag.empty()) fail_at(token.line, str("the tag '", tag, "' of line ", begin_line, " is never closed"));
          return body;
        case TokenKind::kData: {
          Stmt* s = make_stmt(StmtKind::kData, token.line);
          s->text = Value::string(next().text);
          body.push_back(s);
          break;
        }
        case TokenKind::kOutputBegin: {
          Stmt* s = make_stmt(StmtKind::kOutput, token.line);
          next();
          s->value = tuple(true, false);
          if (peek().kind != TokenKind::kOutputEnd) fail_expected("'}}'");
          next();
          body.push_back(s);
          break;
        }
        case TokenKind::kBlockBegin: {
          next();
          if (peek().kind == TokenKind::kName) {
            for (const std::string_view end : ends) {
              if (at_name(end)) return body;
            }
          }
          body.push_back(statement(tag));
          expect_block_end();
          break;
        }
        default:
          fail_expected("a tag or text");
      }
    }
  }

  std::vector<Stmt*> block_body(const std::string& tag, std::initializer_list<std::string_view> ends) {
    skip_op(":");
    expect_block_end();
    return statements(ends, tag);
  }
  std::vector<Stmt*> block_body_to_end(const std::string& tag, std::string_view end) {
    std::vector<Stmt*> body = block_body(tag, {end});
    next();
    return body;
  }

  Stmt* statement(const std::string& enclosing) {
    if (peek().kind != TokenKind::kName) fail_expected("a tag name");
    const std::string tag = peek().text;
    const int line = next().line;
    if (tag == "for") return for_(line);
    if (tag == "if") return if_(line);
    if (tag == "set") return set(line);
    if (tag == "macro") return macro(line);
    if (tag == "call") return call_block(line);
    if (tag == "filter") return filter_block(line);
    if (tag == "with") return with(line);
    if (tag == "print") {
      Stmt* s = make_stmt(StmtKind::kOutput, line);
      s->value = make(ExprKind::kConcat, line);
      do add_arg(s->value, expression());
      while (skip_op(","));
      return s;
    }
    if (tag == "generation") return scope(line, tag, "endgeneration");
    if (tag == "autoescape") {
      if (peek().kind != TokenKind::kName || peek().text != "false") {
        fail_at(line, "autoescape: only 'false' is supported");
      }
      next();
      return scope(line, tag, "endautoescape");
    }
    if (tag == "block") {
      const std::string name = expect_identifier();
      skip_name("scoped");
      skip_name("required");
      Stmt* s = scope(line, tag, "endblock");
      skip_name(name);
      return s;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(line, str("'", tag, "' outside of a loop"));
      return make_stmt(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue, line);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      fail_at(line, str("'", tag, "' is not supported: a chat template stands alone"));
    }
    fail_at(line, enclosing.empty() ? str("unknown tag '", tag, "'")
                                    : str("unknown tag '", tag, "'; inside '", enclosing, "'"));
  }

  Stmt* scope(int line, const std::string& tag, std::string_view end) {
    Stmt* s = make_stmt(StmtKind::kScope, line);
    s->body = block_body_to_end(tag, end);
    return s;
  }

  Target single_target(bool with_field) {
    const Nesting nesting(*this);
    Target t;
    if (at_op("(")) {
      next();
      t = targets(with_field, ")");
      expect_op(")");
      return t;
    }
    const int line = peek().line;
    const std::string name = expect_identifier();
    static constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
    for (const std::string_view reserved : kReserved) {
      if (name == reserved) fail_at(line, str("can't assign to '", name, "'"));
    }
    t.symbol = ast_.intern(name);
    if (with_field && skip_op(".")) {
      t.kind = Target::Kind::kField;
      t.field = expect_identifier();
    }
    return t;
  }

  Target targets(bool with_field, std::string_view end) {
    Target first = single_target(with_field);
    if (!at_op(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.parts.push_back(std::move(first));
    while (skip_op(",")) {
      if (at_op(end) || at_name(end)) break;
      tuple.parts.push_back(single_target(with_field));
    }
    return tuple;
  }

  Stmt* for_(int line) {
    Stmt* s = make_stmt(StmtKind::kFor, line);
    s->target = targets(false, "in");
    expect_name("in");
    s->value = tuple(false, false);
    if (skip_name("if")) s->test = expression();
    s->recursive = skip_name("recursive");
    ++loops_;
    s->body = block_body("for", {"endfor", "else"});
    --loops_;
    if (next().text == "else") s->orelse = block_body_to_end("for", "endfor");
    return s;
  }

  Stmt* if_(int line) {
    Stmt* first = make_stmt(StmtKind::kIf, line);
    Stmt* s = first;
    for (;;) {
      s->value = tuple(false, false);
      s->body = block_body("if", {"elif", "else", "endif"});
      const Token& end = next();
      if (end.text == "endif") return first;
      if (end.text == "else") {
        s->orelse = block_body_to_end("if", "endif");
        return first;
      }
      Stmt* alternative = make_stmt(StmtKind::kIf, end.line);
      s->orelse.push_back(alternative);
      s = alternative;
    }
  }

  Stmt* set(int line) {
    Stmt* s = make_stmt(StmtKind::kSet, line);
    s->target = targets(true, "=");
    if (skip_op("=")) {
      s->value = tuple(true, false);
      return s;
    }
    s->kind = StmtKind::kSetBlock;
    s->value = filter_chain(nullptr, false);
    s->body = block_body_to_end("set", "endset");
    return s;
  }

  void signature(Stmt* s) {
    expect_op("(");
    while (!at_op(")")) {
      if (!s->params.empty()) expect_op(",");
      const int line = peek().line;
      Param param{ast_.intern(expect_identifier()), nullptr};
      for (const Param& other : s->params) {
        if (other.symbol == param.symbol) fail_at(line, str("parameter named twice: ", ast_.symbols[param.symbol]));
      }
      if (skip_op("=")) {
        param.fallback = expression();
      } else if (!s->params.empty() && s->params.back().fallback != nullptr) {
        fail_here("a parameter without default follows one with a default");
      }
      s->params.push_back(param);
    }
    next();
  }

  // Parses a body in which `varargs`, `kwargs` and `caller` mean the macro's own.
  void macro_body(Stmt* s, const std::string& tag, std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    macros_.push_back(s);
    s->body = block_body_to_end(tag, end);
    macros_.pop_back();
    loops_ = loops;
  }
  void note_special(const std::string& name) {
    if (macros_.empty()) return;
    Stmt* s = macros_.back();
    if (name == "varargs") s->uses_varargs = true;
    if (name == "kwargs") s->uses_kwargs = true;
    if (name == "caller") s->uses_caller = true;
  }

  Stmt* macro(int line) {
    Stmt* s = make_stmt(StmtKind::kMacro, line);
    s->symbol = ast_.intern(expect_identifier());
    signature(s);
    macro_body(s, "macro", "endmacro");
    return s;
  }

  Stmt* call_block(int line) {
    Stmt* s = make_stmt(StmtKind::kCallBlock, line);
    s->symbol = ast_.intern("caller");
    if (at_op("(")) signature(s);
    s->value = expression();
    if (s->value->kind != ExprKind::kCall) fail_at(line, "call: expected a call of a macro");
    macro_body(s, "call", "endcall");
    return s;
  }

  Stmt* filter_block(int line) {
    Stmt* s = make_stmt(StmtKind::kFilterBlock, line);
    s->value = filter_chain(nullptr, true);
    s->body = block_body_to_end("filter", "endfilter");
    return s;
  }

  Stmt* with(int line) {
    Stmt* s = make_stmt(StmtKind::kWith, line);
    while (peek().kind != TokenKind::kBlockEnd) {
      if (!s->targets.empty()) expect_op(",");
      s->targets.push_back(single_target(false));
      expect_op("=");
      s->values.push_back(expression());
    }
    s->body = block_body_to_end("with", "endwith");
    return s;
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int nesting_ = 0;
  int loops_ = 0;              // for-loops around the cursor, within the innermost macro
  std::vector<Stmt*> macros_;  // macros and call blocks around the cursor
  Ast ast_;
};

}  // namespace

Ast parse(const std::string& source) { return Parser(source).run(); }

}  // namespace loci::jinja
