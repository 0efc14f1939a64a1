// Grammar: rules over characters, the one form that GBNF text, regular expressions and JSON schemas are turned into.
// It is checked and limited here, so that nothing hostile reaches the compiler behind it (constraint.h).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loci {

struct CharRange {
  uint32_t low, high;  // code points, both included
};
using CharSet = std::vector<CharRange>;

constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Sorted, without overlaps, and without what no text holds: surrogates, and U+0000, which is never produced.
CharSet normalized(CharSet set);
CharSet complement(const CharSet& set);
CharSet intersection(const CharSet& a, const CharSet& b);

class Grammar {
 public:
  using Node = int32_t;
  using Rule = int32_t;

  // What untrusted text may ask for. More throws Error(kInvalidInput) that says which limit was met.
  static constexpr int64_t kMaxNodes = 200'000;
  static constexpr int64_t kMaxRepeat = 20'000;      // one count
  static constexpr int64_t kMaxWeight = 200'000;     // characters and classes, repetitions written out
  static constexpr int kMaxRuleDepth = 400;          // rules through rules, without recursion
  static constexpr int64_t kMaxTextBytes = 1 << 18;  // of a source

  // UTF-8 text; empty matches nothing but the empty text. Throws Error for invalid UTF-8 and U+0000.
  Node text(std::string_view utf8);
  // One character of the set. An empty set matches nothing at all.
  Node chars(CharSet set);
  Node sequence(std::vector<Node> items);
  Node choice(std::vector<Node> options);
  // max < 0: no limit. REQUIRES: 0 <= min, min <= max unless max < 0.
  Node repeat(Node item, int64_t min, int64_t max);
  Node optional(Node item) { return repeat(item, 0, 1); }
  Node empty() { return text(""); }
  Node reference(Rule rule);

  // `name` is for messages. A rule may be referred to before it is defined.
  Rule add_rule(std::string name);
  Rule add_rule(std::string name, Node body);
  void define(Rule rule, Node body);
  bool is_defined(Rule rule) const { return rules_[static_cast<size_t>(rule)].body >= 0; }
  const std::string& rule_name(Rule rule) const { return rules_[static_cast<size_t>(rule)].name; }
  // The whole text. Without: rule 0.
  void set_root(Rule rule) { root_ = rule; }

  // Whether the node matches the empty text. REQUIRES: check() passed, or the node refers to no rules.
  bool matches_empty(Node node) const;

  // Throws Error(kInvalidInput) that names the rule: undefined, left-recursive, never complete (no text of finite
  // length matches), too deep or too heavy.
  void check() const;
  // In the syntax of the compiler. Equal grammars give equal texts. `leading_space`: a few white-space characters
  // may stand before the text. REQUIRES: check() passed.
  std::string to_ebnf(bool leading_space) const;

 private:
  enum class Kind : uint8_t { kText, kChars, kSequence, kChoice, kRepeat, kReference };
  struct NodeData {
    Kind kind;
    std::string text;         // kText
    CharSet set;              // kChars
    std::vector<Node> items;  // kSequence, kChoice; one for kRepeat
    int64_t min = 0, max = 0;
    Rule rule = -1;  // kReference
  };
  struct RuleData {
    std::string name;
    Node body = -1;
  };
  struct Checker;

  Node add(NodeData node);
  const NodeData& at(Node node) const { return nodes_[static_cast<size_t>(node)]; }
  void print(Node node, std::string& out) const;

  std::vector<NodeData> nodes_;
  std::vector<RuleData> rules_;
  Rule root_ = 0;
};

}  // namespace loci
