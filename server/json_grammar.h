// The parts of JSON as parts of a Grammar: strings, numbers, white space, any value, a given value.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/constraint/grammar.h"

namespace loci::server {

class JsonGrammar {
 public:
  explicit JsonGrammar(Grammar& grammar) : g(grammar) {}

  Grammar::Node space();      // between tokens: nothing, a blank, or a line break with an indent
  Grammar::Node character();  // one, inside a string
  Grammar::Node string(int64_t min_length = 0, int64_t max_length = -1);  // with a bound: nothing that is escaped
  Grammar::Node integer();
  Grammar::Node number();
  Grammar::Node value();   // any
  Grammar::Node object();  // any
  Grammar::Node literal(const nlohmann::ordered_json& value);
  // `[` items `]` and `{` members `}` around what stands between, which may be empty.
  Grammar::Node bracketed(const char* open, Grammar::Node inside, const char* close);
  // A comma, white space, and the item.
  Grammar::Node next(Grammar::Node item);
  Grammar::Node member(Grammar::Node key, Grammar::Node value);  // key: with its quotes
  Grammar::Node quoted(Grammar::Node inside);
  // A key that is none of these.
  Grammar::Node other_key(const std::vector<std::string>& taken);

 private:
  // A rule that is made when it is first asked for.
  template <typename Make>
  Grammar::Node shared(Grammar::Rule& rule, const char* name, Make make);

  Grammar& g;
  Grammar::Rule space_ = -1, character_ = -1, string_ = -1, integer_ = -1, number_ = -1, value_ = -1, object_ = -1;
};

}  // namespace loci::server
