// Any bytes as an answer in any dialect: nothing throws, every way of cutting the text gives the same, arguments of
// whole calls are JSON objects, and a text without calls comes back as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/text/unicode.h"
#include "server/tools/output_parser.h"

namespace {

using loci::server::OutputOptions;
using loci::server::OutputParser;
using loci::server::ParsedCall;
using loci::server::ParsedOutput;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

ParsedOutput parse(const loci::server::Dialect& dialect, const OutputOptions& options, std::string_view text,
                   uint32_t cuts) {
  OutputParser parser(&dialect, options);
  ParsedOutput output;
  while (!text.empty() && cuts != 0) {
    cuts = cuts * 1664525 + 1013904223;
    const size_t n = std::min<size_t>(text.size(), 1 + (cuts >> 24) % 9);
    output.add(parser.feed(text.substr(0, n)));
    text.remove_prefix(n);
  }
  output.add(parser.feed(text));
  output.add(parser.finish());
  return output;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto all = loci::server::dialects();
  const loci::server::Dialect& dialect = all[data[0] % all.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  OutputOptions options;
  options.tools = loci::server::ToolSet(nlohmann::ordered_json::parse(
      R"([{"function":{"name":"f","parameters":{"properties":{"a":{"type":"string"}}}}},{"function":{"name":"g"}}])"));
  options.stream_arguments = (data[1] & 1) != 0;
  options.parallel_calls = (data[1] & 2) == 0;
  options.split_reasoning = (data[1] & 4) == 0;
  if ((data[1] & 8) != 0) options.opened_reasoning = "<think>";
  if ((data[1] & 16) != 0) options.tools = loci::server::ToolSet();
  const ParsedOutput whole = parse(dialect, options, text, 0);
  require(parse(dialect, options, text, 1u + data[2]) == whole);

  if (!options.stream_arguments) {
    for (const ParsedCall& call : whole.calls) {
      require(!call.name.empty() && !call.id.empty());
      require(nlohmann::ordered_json::parse(call.arguments, nullptr, false).is_object());
    }
  }
  const auto markers = loci::server::reasoning_markers();
  const bool thinks = std::any_of(markers.begin(), markers.end(),
                                  [&](std::string_view m) { return text.find(m) != std::string_view::npos; });
  const bool is_plain = dialect.headers == loci::server::Headers::kNone && dialect.dropped.empty() && !thinks &&
                        options.opened_reasoning.empty();
  if (is_plain && whole.calls.empty()) require(whole.content == loci::unicode::sanitized(text));
  return 0;
}
