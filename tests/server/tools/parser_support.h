// What the tests of server/tools share: a text parsed whole and in all ways of cutting it.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/tools/output_parser.h"

namespace loci::server {

inline std::ostream& operator<<(std::ostream& out, const ParsedOutput& output) {
  out << "content '" << output.content << "' reasoning '" << output.reasoning << "'";
  for (const ParsedCall& call : output.calls) out << " call " << call.id << " " << call.name << call.arguments;
  return out;
}

// weather(location, unit: texts), calculate(expression: text, precision, flags, verbose).
inline const ToolSet& test_tools() {
  static const ToolSet tools(nlohmann::ordered_json::parse(R"([
    {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
      "location":{"type":"string"},"unit":{"type":"string"}}}}},
    {"type":"function","function":{"name":"calculate","parameters":{"type":"object","properties":{
      "expression":{"type":"string"},"precision":{"type":"integer"},"flags":{"type":"array"},
      "verbose":{"type":"boolean"}}}}},
    {"type":"function","function":{"name":"get_current_weather","parameters":{"type":"object","properties":{
      "location":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}}}}}])"));
  return tools;
}

inline OutputOptions test_options() {
  OutputOptions options;
  options.tools = test_tools();
  options.id_seed = "test";
  return options;
}

// `cuts`: places to cut at, ascending.
inline ParsedOutput parse_cut(const Dialect* dialect, const OutputOptions& options, std::string_view text,
                              const std::vector<size_t>& cuts) {
  OutputParser parser(dialect, options);
  ParsedOutput output;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    output.add(parser.feed(text.substr(begin, cut - begin)));
    begin = cut;
  }
  output.add(parser.feed(text.substr(begin)));
  output.add(parser.finish());
  return output;
}

// The output of the whole text; checks that no way of cutting it gives another.
inline ParsedOutput parse_all_ways(const Dialect* dialect, const OutputOptions& options, const std::string& text) {
  const ParsedOutput whole = parse_cut(dialect, options, text, {});
  for (size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(parse_cut(dialect, options, text, {cut}), whole) << "cut at " << cut << ": " << text;
    if (::testing::Test::HasFailure()) return whole;
  }
  std::vector<size_t> bytes;
  for (size_t cut = 1; cut < text.size(); ++cut) bytes.push_back(cut);
  EXPECT_EQ(parse_cut(dialect, options, text, bytes), whole) << "byte by byte: " << text;
  std::mt19937 random(static_cast<unsigned>(text.size()));
  for (int round = 0; round < 10; ++round) {
    std::vector<size_t> cuts;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (random() % (2 + static_cast<unsigned>(round)) == 0) cuts.push_back(cut);
    }
    EXPECT_EQ(parse_cut(dialect, options, text, cuts), whole) << "round " << round << ": " << text;
  }
  return whole;
}

}  // namespace loci::server
