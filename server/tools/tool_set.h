// ToolSet: the tools of a request, as the readers of calls need them: names, and which parameters are texts.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace loci::server {

class ToolSet {
 public:
  ToolSet() = default;
  // A request's list: {"type": "function", "function": {"name", "parameters"}}, or the same without the wrapping, with
  // "parameters" or "input_schema". What is no such thing is left out.
  explicit ToolSet(const nlohmann::ordered_json& tools);

  bool empty() const { return tools_.empty(); }
  bool has(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // JSON text of an argument that a dialect writes without quotes. A text where the schema wants one; else the value
  // that it spells, or a text where it spells none.
  std::string argument_text(std::string_view tool, std::string_view parameter, std::string_view value) const;
  // Whether the schema wants a text and nothing else.
  bool wants_text(std::string_view tool, std::string_view parameter) const;

 private:
  enum class Type { kText, kTextOrNull };
  using Parameters = std::map<std::string, Type, std::less<>>;  // those that are texts
  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace loci::server
