// Values as models write them where they do not write JSON: Python literals, bare keys, foreign quotes.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loci::server {

// JSON and Python literals: strings in either quotes, numbers, true and True and so on, lists, tuples, dicts. Keys may
// be bare words. With a `quote` such as <|"|> a string may stand between two of them, as it is. nullopt: something
// else, or more than one value.
std::optional<nlohmann::ordered_json> parse_literal(std::string_view text, std::string_view quote = {});

// Calls as Python writes them, f(a='x', b=[1]), one or a list in brackets: names and arguments by keyword. nullopt:
// something else, positional arguments among it.
std::optional<std::vector<std::pair<std::string, nlohmann::ordered_json>>> parse_python_calls(std::string_view text);

// JSON text of the value that `text` spells as JSON (numbers keep their spelling) or as a Python literal.
std::optional<std::string> json_text_of_value(std::string_view text);
// JSON text of a string.
std::string json_string(std::string_view text);

}  // namespace loci::server
