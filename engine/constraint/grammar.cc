#include "engine/constraint/grammar.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/text/unicode.h"
#include "kernels/check.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr CharRange kSurrogates{0xD800, 0xDFFF};

void append_escaped(uint32_t cp, bool in_class, std::string& out) {
  const bool plain = (cp >= '0' && cp <= '9') || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
                     (!in_class && (cp == ' ' || cp == ',' || cp == ':' || cp == '{' || cp == '}'));
  if (plain) {
    out += static_cast<char>(cp);
    return;
  }
  char escaped[16];
  std::snprintf(escaped, sizeof escaped, cp <= 0xFFFF ? "\\u%04X" : "\\U%08X", static_cast<unsigned>(cp));
  out += escaped;
}

void append_ranges(const CharSet& set, std::string& out) {
  for (const CharRange& range : set) {
    append_escaped(range.low, true, out);
    if (range.high == range.low) continue;
    out += '-';
    append_escaped(range.high, true, out);
  }
}

// As what it leaves out, when it reaches to the end: so the compiler knows the inside of a JSON string when it sees it.
void append_class(const CharSet& set, std::string& out) {
  const bool to_end = !set.empty() && set.back().high == kMaxCodePoint;
  CharSet left_out = to_end ? complement(set) : CharSet();
  if (to_end && (left_out.empty() || left_out.front().low != 1)) {
    left_out.insert(left_out.begin(), {0, 0});
  } else if (to_end) {
    left_out.front().low = 0;
  }
  out += to_end ? "[^" : "[";
  append_ranges(to_end ? left_out : set, out);
  out += ']';
}

}  // namespace

CharSet normalized(CharSet set) {
  CharSet cut;
  const auto keep = [&cut](uint32_t low, uint32_t high) {
    if (low <= high) cut.push_back({low, high});
  };
  for (CharRange range : set) {
    range.low = std::max(range.low, 1u);
    range.high = std::min(range.high, kMaxCodePoint);
    keep(range.low, std::min(range.high, kSurrogates.low - 1));
    keep(std::max(range.low, kSurrogates.high + 1), range.high);
  }
  std::sort(cut.begin(), cut.end(), [](const CharRange& a, const CharRange& b) { return a.low < b.low; });
  CharSet out;
  for (const CharRange& range : cut) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CharSet complement(const CharSet& set) {
  CharSet out;
  uint32_t next = 1;
  for (const CharRange& range : normalized(set)) {
    if (range.low > next) out.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kMaxCodePoint) out.push_back({next, kMaxCodePoint});
  return normalized(std::move(out));
}

CharSet intersection(const CharSet& a, const CharSet& b) {
  CharSet both = complement(a);
  const CharSet not_b = complement(b);
  both.insert(both.end(), not_b.begin(), not_b.end());
  return complement(both);
}

Grammar::Node Grammar::add(NodeData node) {
  if (static_cast<int64_t>(nodes_.size()) >= kMaxNodes) {
    fail(ErrorKind::kInvalidInput, "the grammar is too large: expected at most ", kMaxNodes, " elements");
  }
  nodes_.push_back(std::move(node));
  return static_cast<Node>(nodes_.size()) - 1;
}

Grammar::Node Grammar::text(std::string_view utf8) {
  if (!unicode::is_valid(utf8)) fail(ErrorKind::kInvalidInput, "expected UTF-8 text, found other bytes");
  if (utf8.find('\0') != std::string_view::npos) {
    fail(ErrorKind::kInvalidInput, "U+0000 cannot be produced");
  }
  return add({.kind = Kind::kText, .text = std::string(utf8), .set = {}, .items = {}});
}

Grammar::Node Grammar::chars(CharSet set) {
  return add({.kind = Kind::kChars, .text = {}, .set = normalized(std::move(set)), .items = {}});
}

Grammar::Node Grammar::sequence(std::vector<Node> items) {
  if (items.empty()) return empty();
  if (items.size() == 1) return items.front();
  return add({.kind = Kind::kSequence, .text = {}, .set = {}, .items = std::move(items)});
}

Grammar::Node Grammar::choice(std::vector<Node> options) {
  LOCI_CHECK(!options.empty(), "a choice without options");
  if (options.size() == 1) return options.front();
  return add({.kind = Kind::kChoice, .text = {}, .set = {}, .items = std::move(options)});
}

Grammar::Node Grammar::repeat(Node item, int64_t min, int64_t max) {
  LOCI_CHECK(min >= 0 && (max < 0 || min <= max), "repetition from ", min, " to ", max);
  if (std::max(min, max) > kMaxRepeat) {
    fail(ErrorKind::kInvalidInput, "expected at most ", kMaxRepeat, " repetitions, found ", std::max(min, max));
  }
  if (max == 0) return empty();
  if (min == 1 && max == 1) return item;
  return add(
      {.kind = Kind::kRepeat, .text = {}, .set = {}, .items = {item}, .min = min, .max = std::max<int64_t>(max, -1)});
}

Grammar::Node Grammar::reference(Rule rule) {
  LOCI_CHECK(rule >= 0 && static_cast<size_t>(rule) < rules_.size(), "reference to rule ", rule);
  return add({.kind = Kind::kReference, .text = {}, .set = {}, .items = {}, .rule = rule});
}

Grammar::Rule Grammar::add_rule(std::string name) {
  rules_.push_back({std::move(name), -1});
  return static_cast<Rule>(rules_.size()) - 1;
}

Grammar::Rule Grammar::add_rule(std::string name, Node body) {
  const Rule rule = add_rule(std::move(name));
  define(rule, body);
  return rule;
}

void Grammar::define(Rule rule, Node body) {
  LOCI_CHECK(!is_defined(rule), "rule ", rule_name(rule), " is defined twice");
  rules_[static_cast<size_t>(rule)].body = body;
}

// Properties of nodes and rules, found by fixed points over the nodes, which stand behind their parts: no recursion.
struct Grammar::Checker {
  explicit Checker(const Grammar& grammar) : g(grammar) {}

  // nullable or productive of every node: of a rule, what its body is.
  template <typename OfLeaf>
  std::vector<uint8_t> solve(OfLeaf of_leaf) const {
    std::vector<uint8_t> is(g.nodes_.size(), 0);
    // Each pass goes one rule further up the shortest derivations; a pass in either order shortens chains.
    bool backwards = false;
    int n_passes = 0;
    for (bool changed = true; changed; backwards = !backwards) {
      changed = false;
      if (++n_passes > 4 * kMaxRuleDepth) fail(ErrorKind::kInvalidInput, "the grammar's rules are too entangled");
      for (size_t k = 0; k < is.size(); ++k) {
        const size_t i = backwards ? is.size() - 1 - k : k;
        if (is[i] != 0) continue;
        const NodeData& node = g.nodes_[i];
        bool now = false;
        switch (node.kind) {
          case Kind::kText:
          case Kind::kChars:
            now = of_leaf(node);
            break;
          case Kind::kSequence:
            now = std::all_of(node.items.begin(), node.items.end(), [&](Node n) { return is[static_cast<size_t>(n)]; });
            break;
          case Kind::kChoice:
            now = std::any_of(node.items.begin(), node.items.end(), [&](Node n) { return is[static_cast<size_t>(n)]; });
            break;
          case Kind::kRepeat:
            now = node.min == 0 || is[static_cast<size_t>(node.items[0])] != 0;
            break;
          case Kind::kReference: {
            const Node body = g.rules_[static_cast<size_t>(node.rule)].body;
            now = body >= 0 && is[static_cast<size_t>(body)] != 0;
            break;
          }
        }
        if (now) is[i] = 1, changed = true;
      }
    }
    return is;
  }

  std::vector<uint8_t> nullable() const {
    return solve([](const NodeData& node) { return node.kind == Kind::kText && node.text.empty(); });
  }
  std::vector<uint8_t> productive() const {
    return solve([](const NodeData& node) { return node.kind == Kind::kText || !node.set.empty(); });
  }

  // Rules that may be entered from the body of `rule`; `leftmost`: before any character.
  std::vector<Rule> entered(Rule rule, bool leftmost, const std::vector<uint8_t>& nullable) const {
    std::vector<Rule> rules;
    std::vector<Node> todo{g.rules_[static_cast<size_t>(rule)].body};
    while (!todo.empty()) {
      const NodeData& node = g.at(todo.back());
      todo.pop_back();
      if (node.kind == Kind::kReference) rules.push_back(node.rule);
      for (const Node item : node.items) {
        todo.push_back(item);
        if (leftmost && node.kind == Kind::kSequence && nullable[static_cast<size_t>(item)] == 0) break;
      }
    }
    return rules;
  }

  // Depth-first over rules. A way back to a rule that is still open is a cycle, told to `on_cycle`. Returns the
  // longest way from the root, in rules.
  template <typename OnCycle>
  int walk(const std::vector<std::vector<Rule>>& edges, OnCycle on_cycle) const {
    struct Open {
      Rule rule;
      size_t next;
      int depth;
    };
    std::vector<int> depth(edges.size(), -1);  // of closed rules; 0: open
    std::vector<Open> open;
    int deepest = 0;
    for (Rule first = 0; static_cast<size_t>(first) < edges.size(); ++first) {
      if (depth[static_cast<size_t>(first)] >= 0) continue;
      open.push_back({first, 0, 1});
      depth[static_cast<size_t>(first)] = 0;
      while (!open.empty()) {
        Open& top = open.back();
        if (top.next == edges[static_cast<size_t>(top.rule)].size()) {
          const Open done = top;
          open.pop_back();
          depth[static_cast<size_t>(done.rule)] = done.depth;
          deepest = std::max(deepest, done.depth);
          if (!open.empty()) open.back().depth = std::max(open.back().depth, done.depth + 1);
          continue;
        }
        const Rule next = edges[static_cast<size_t>(top.rule)][top.next++];
        const int known = depth[static_cast<size_t>(next)];
        if (known == 0) {
          on_cycle(next);
        } else if (known > 0) {
          top.depth = std::max(top.depth, known + 1);
        } else {
          depth[static_cast<size_t>(next)] = 0;
          open.push_back({next, 0, 1});
        }
      }
    }
    return deepest;
  }

  int64_t total_weight() const {
    std::vector<int64_t> weight(g.nodes_.size(), 0);
    constexpr int64_t kEnough = kMaxWeight + 1;
    for (size_t i = 0; i < weight.size(); ++i) {
      const NodeData& node = g.nodes_[i];
      int64_t sum = 0;
      for (const Node item : node.items) sum = std::min(kEnough, sum + weight[static_cast<size_t>(item)]);
      switch (node.kind) {
        case Kind::kText:
          sum = static_cast<int64_t>(node.text.size());
          break;
        case Kind::kChars:
          sum = static_cast<int64_t>(node.set.size());
          break;
        case Kind::kReference:
          sum = 1;
          break;
        case Kind::kRepeat:
          sum *= std::max<int64_t>({node.min + 1, node.max, 1});
          break;
        default:
          break;
      }
      weight[i] = std::min(kEnough, sum);
    }
    int64_t total = 0;
    for (const RuleData& rule : g.rules_) total = std::min(kEnough, total + weight[static_cast<size_t>(rule.body)]);
    return total;
  }

  const Grammar& g;
};

bool Grammar::matches_empty(Node node) const { return Checker(*this).nullable()[static_cast<size_t>(node)] != 0; }

void Grammar::check() const {
  const auto reject = [this](Rule rule, auto&&... parts) {
    fail(ErrorKind::kInvalidInput, "rule '", rules_[static_cast<size_t>(rule)].name, "' ", parts...);
  };
  LOCI_CHECK(!rules_.empty(), "a grammar without rules");
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].body < 0) reject(static_cast<Rule>(i), "is used and not defined");
  }
  const Checker checker(*this);
  const int64_t weight = checker.total_weight();
  if (weight > kMaxWeight) {
    fail(ErrorKind::kInvalidInput, "the grammar is too large: expected at most ", kMaxWeight,
         " characters and classes with repetitions written out");
  }
  std::vector<std::vector<Rule>> edges;
  for (size_t i = 0; i < rules_.size(); ++i) edges.push_back(checker.entered(static_cast<Rule>(i), false, {}));
  const int depth = checker.walk(edges, [](Rule) {});
  if (depth > kMaxRuleDepth) {
    fail(ErrorKind::kInvalidInput, "the grammar is too deep: expected rules through at most ", kMaxRuleDepth,
         " others, found ", depth);
  }
  const std::vector<uint8_t> productive = checker.productive(), nullable = checker.nullable();
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (productive[static_cast<size_t>(rules_[i].body)] == 0) {
      reject(static_cast<Rule>(i), "can never be completed: no text matches it");
    }
    edges[i] = checker.entered(static_cast<Rule>(i), true, nullable);
  }
  checker.walk(edges, [&](Rule rule) { reject(rule, "refers to itself before any character (left recursion)"); });
}

void Grammar::print(Node root, std::string& out) const {
  // Either a node or a text to append, last first.
  struct Item {
    Node node;
    std::string text;
  };
  std::vector<Item> todo{{root, ""}};
  while (!todo.empty()) {
    const Item item = std::move(todo.back());
    todo.pop_back();
    if (item.node < 0) {
      out += item.text;
      continue;
    }
    const NodeData& node = at(item.node);
    switch (node.kind) {
      case Kind::kText:
        out += '"';
        for (size_t pos = 0; pos < node.text.size();) {
          const unicode::Decoded d = unicode::decode(node.text, pos);
          append_escaped(d.cp, false, out);
          pos += d.length;
        }
        out += '"';
        break;
      case Kind::kChars:
        append_class(node.set, out);
        break;
      case Kind::kReference:
        out += str("r", node.rule);
        break;
      case Kind::kSequence:
      case Kind::kChoice: {
        const char* between = node.kind == Kind::kChoice ? " | " : " ";
        out += '(';
        todo.push_back({-1, ")"});
        for (size_t i = node.items.size(); i-- > 0;) {
          todo.push_back({node.items[i], ""});
          if (i > 0) todo.push_back({-1, between});
        }
        break;
      }
      case Kind::kRepeat: {
        std::string count = ")";
        if (node.min == 0 && node.max < 0) {
          count += "*";
        } else if (node.min == 1 && node.max < 0) {
          count += "+";
        } else if (node.min == 0 && node.max == 1) {
          count += "?";
        } else {
          count += str("{", node.min, ",", node.max < 0 ? std::string() : std::to_string(node.max), "}");
        }
        const Kind inner = at(node.items[0]).kind;
        const bool bare = inner == Kind::kChars || inner == Kind::kReference || inner == Kind::kText;
        if (!bare) out += '(';
        todo.push_back({-1, bare ? count.substr(1) : count});
        todo.push_back({node.items[0], ""});
        break;
      }
    }
  }
}

std::string Grammar::to_ebnf(bool leading_space) const {
  std::string out =
      leading_space ? str("root ::= [\\u0020\\u000A]{0,2} r", root_, "\n") : str("root ::= r", root_, "\n");
  for (size_t i = 0; i < rules_.size(); ++i) {
    out += str("r", i, " ::= ");
    print(rules_[i].body, out);
    out += '\n';
  }
  return out;
}

}  // namespace loci
