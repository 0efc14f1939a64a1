#include "server/request_output.h"

#include <utility>

namespace loci::server {

OutputParser output_parser(const CompletionRequest& request, std::string id_seed, bool streams) {
  OutputOptions options;
  options.split_reasoning = request.split_reasoning;
  options.stream_arguments = streams;
  options.id_seed = std::move(id_seed);
  const bool is_chat = request.endpoint == Endpoint::kChatCompletions;
  if (is_chat) options.opened_reasoning = request.prompts.front().opens_reasoning;
  // A text that is continued, or an answer that is wanted as it is, has no parts.
  const bool has_parts = is_chat && (request.split_reasoning || !request.tools.tools.empty());
  options.tools = request.tools.tools;
  options.parallel_calls = request.tools.parallel_calls;
  return OutputParser(has_parts ? request.dialect : nullptr, std::move(options));
}

std::string id_seed_of(const std::string& response_id, size_t choice) { return str(response_id, '/', choice); }

ParsedOutput parse_output(const CompletionRequest& request, std::string_view text, std::string id_seed) {
  OutputParser parser = output_parser(request, std::move(id_seed), false);
  ParsedOutput output;
  output.add(parser.feed(text));
  output.add(parser.finish());
  return output;
}

}  // namespace loci::server
