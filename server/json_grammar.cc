#include "server/json_grammar.h"

#include <map>
#include <utility>

#include "engine/constraint/regex.h"
#include "engine/text/unicode.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxDigits = 15;  // of numbers: what a double holds exactly
constexpr int64_t kMaxIndent = 24;
const CharSet kAnyCharacter{{1, kMaxCodePoint}};
const CharSet kUnescaped{{0x20, '!'}, {'#', '['}, {']', kMaxCodePoint}};

// Keys by their characters.
struct Trie {
  bool ends = false;
  std::map<uint32_t, Trie> next;
};

}  // namespace

template <typename Make>
Grammar::Node JsonGrammar::shared(Grammar::Rule& rule, const char* name, Make make) {
  if (rule < 0) {
    rule = g.add_rule(name);
    g.define(rule, make());
  }
  return g.reference(rule);
}

Grammar::Node JsonGrammar::space() {
  return shared(space_, "white space", [&] {
    const Grammar::Node indent = g.repeat(g.chars({{' ', ' '}}), 0, kMaxIndent);
    return g.choice({g.empty(), g.text(" "), g.sequence({g.text("\n"), indent})});
  });
}

Grammar::Node JsonGrammar::character() {
  return shared(character_, "character", [&] { return json_chars(g, kAnyCharacter); });
}

Grammar::Node JsonGrammar::quoted(Grammar::Node inside) { return g.sequence({g.text("\""), inside, g.text("\"")}); }

Grammar::Node JsonGrammar::string(int64_t min_length, int64_t max_length) {
  if (min_length == 0 && max_length < 0) {
    return shared(string_, "string", [&] { return quoted(g.repeat(character(), 0, -1)); });
  }
  // Of one class of characters up to the closing quote, the compiler knows most masks without looking at each place.
  return quoted(g.repeat(g.chars(kUnescaped), min_length, max_length));
}

Grammar::Node JsonGrammar::integer() {
  return shared(integer_, "integer", [&] {
    const Grammar::Node digits =
        g.sequence({g.chars({{'1', '9'}}), g.repeat(g.chars({{'0', '9'}}), 0, kMaxDigits - 1)});
    return g.sequence({g.optional(g.text("-")), g.choice({g.text("0"), digits})});
  });
}

Grammar::Node JsonGrammar::number() {
  return shared(number_, "number", [&] {
    const CharSet digit{{'0', '9'}};
    const Grammar::Node fraction = g.sequence({g.text("."), g.repeat(g.chars(digit), 1, kMaxDigits)});
    const Grammar::Node exponent =
        g.sequence({g.chars({{'e', 'e'}, {'E', 'E'}}), g.optional(g.chars({{'+', '+'}, {'-', '-'}})),
                    g.repeat(g.chars(digit), 1, 2)});
    return g.sequence({integer(), g.optional(fraction), g.optional(exponent)});
  });
}

Grammar::Node JsonGrammar::bracketed(const char* open, Grammar::Node inside, const char* close) {
  return g.sequence({g.text(open), space(), inside, space(), g.text(close)});
}

Grammar::Node JsonGrammar::next(Grammar::Node item) { return g.sequence({g.text(","), space(), item}); }

Grammar::Node JsonGrammar::member(Grammar::Node key, Grammar::Node value) {
  return g.sequence({key, g.text(":"), space(), value});
}

Grammar::Node JsonGrammar::object() {
  return shared(object_, "object", [&] {
    const Grammar::Node one = member(string(), value());
    const Grammar::Node members = g.sequence({one, g.repeat(next(one), 0, -1)});
    return bracketed("{", g.optional(members), "}");
  });
}

Grammar::Node JsonGrammar::value() {
  return shared(value_, "value", [&] {
    const Grammar::Node item = g.reference(value_);
    const Grammar::Node items = g.sequence({item, g.repeat(next(item), 0, -1)});
    return g.choice({object(), bracketed("[", g.optional(items), "]"), string(), number(), g.text("true"),
                     g.text("false"), g.text("null")});
  });
}

Grammar::Node JsonGrammar::literal(const Json& value) {
  if (value.is_string()) return quoted(json_text(g, value.get_ref<const std::string&>()));
  if (value.is_array() || value.is_object()) {
    std::vector<Grammar::Node> inside;
    for (const auto& [key, item] : value.items()) {
      Grammar::Node one = literal(item);
      if (value.is_object()) one = member(quoted(json_text(g, key)), one);
      inside.push_back(inside.empty() ? one : next(one));
    }
    return value.is_object() ? bracketed("{", g.sequence(std::move(inside)), "}")
                             : bracketed("[", g.sequence(std::move(inside)), "]");
  }
  return g.text(value.dump());
}

Grammar::Node JsonGrammar::other_key(const std::vector<std::string>& taken) {
  Trie root;
  for (const std::string& key : taken) {
    Trie* at = &root;
    for (size_t pos = 0; pos < key.size();) {
      const unicode::Decoded d = unicode::decode(key, pos);
      at = &at->next[d.cp];
      pos += d.length;
    }
    at->ends = true;
  }
  // Keys are written without escapes, so that no spelling of a taken one slips through. Rules are made from the leaves
  // up, each for the rest of a key; a list of work keeps long keys off the stack.
  const Grammar::Rule any = g.add_rule("rest of a key", g.repeat(g.chars(kUnescaped), 0, -1));
  struct Job {
    const Trie* trie;
    Grammar::Rule rule;
  };
  const Grammar::Rule first = g.add_rule("another key");
  std::vector<Job> todo{{&root, first}};
  while (!todo.empty()) {
    const Job job = todo.back();
    todo.pop_back();
    CharSet branching;
    std::vector<Grammar::Node> options;
    for (const auto& [cp, next_trie] : job.trie->next) {
      branching.push_back({cp, cp});
      if (intersection({{cp, cp}}, kUnescaped).empty()) continue;  // would be escaped
      const Grammar::Rule rule = g.add_rule("another key");
      std::string character;
      unicode::append(character, cp);
      options.push_back(g.sequence({g.text(character), g.reference(rule)}));
      todo.push_back({&next_trie, rule});
    }
    options.push_back(g.sequence({g.chars(intersection(kUnescaped, complement(branching))), g.reference(any)}));
    if (!job.trie->ends) options.push_back(g.empty());
    g.define(job.rule, g.choice(std::move(options)));
  }
  return quoted(g.reference(first));
}

}  // namespace loci::server
