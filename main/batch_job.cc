#include "main/batch_job.h"

#include "main/batch_ledger.h"
#include "server/json.h"

namespace loci::cli {
namespace {

using server::ApiError;
using server::Json;

constexpr const char* kChatUrl = "/v1/chat/completions";
constexpr const char* kTextUrl = "/v1/completions";

std::string made_up_id(const InputLine& input) {
  return str("request-", input.ordinal, "-", stable_id({input.text, std::to_string(input.n_bytes)}).substr(0, 8));
}

void set_error(BatchLine& line, const std::string& code, const std::string& message) {
  line.error = server::to_api_error(Error(ErrorKind::kInvalidInput, message));
  line.error_code = code;
}

bool is_present(const Json& json, const char* name) { return json.contains(name) && !json[name].is_null(); }

void read_endpoint(const Json& url, BatchLine& line) {
  const std::string text = url.is_string() ? url.get<std::string>() : "";
  if (text == kChatUrl || text == "/chat/completions") {
    line.endpoint = server::Endpoint::kChatCompletions;
  } else if (text == kTextUrl) {
    line.endpoint = server::Endpoint::kCompletions;
  } else {
    set_error(line, "unsupported_url",
              str("url: expected ", kChatUrl, " or ", kTextUrl, ", found ", server::excerpt(url)));
  }
}

void read_object(Json& json, BatchLine& line) {
  if (!json.is_object()) {
    return set_error(line, "invalid_json", str("expected a JSON object, found ", json.type_name()));
  }
  if (is_present(json, "custom_id")) {
    if (!json["custom_id"].is_string() || json["custom_id"].get_ref<const std::string&>().empty()) {
      return set_error(line, "invalid_custom_id",
                       "custom_id: expected a string that is not empty, found " + server::excerpt(json["custom_id"]));
    }
    line.custom_id = json["custom_id"].get<std::string>();
    line.has_own_id = true;
  }
  if (!is_present(json, "url") && !is_present(json, "body")) {
    line.endpoint = is_present(json, "messages") ? server::Endpoint::kChatCompletions : server::Endpoint::kCompletions;
    if (!is_present(json, "messages") && !is_present(json, "prompt")) {
      return set_error(line, "invalid_request", "expected custom_id, url and body, or 'prompt', or 'messages'");
    }
    line.body = std::move(json);
    return;
  }
  if (is_present(json, "method") && json["method"] != "POST") {
    return set_error(line, "invalid_request", "method: expected POST, found " + server::excerpt(json["method"]));
  }
  if (!is_present(json, "body")) return set_error(line, "invalid_request", "'body' is required");
  if (!is_present(json, "url")) return set_error(line, "invalid_request", "'url' is required");
  read_endpoint(json["url"], line);
  if (!line.error) line.body = std::move(json["body"]);
}

// The first keys of a line stand in this order: BatchOutput knows a torn line by it.
Json line_start(const std::string& custom_id, const std::string& request_id, int status, Json body) {
  Json line;
  line["id"] = request_id;
  line["custom_id"] = custom_id;
  line["response"]["status_code"] = status;
  line["response"]["request_id"] = "req_" + stable_id({request_id});
  line["response"]["body"] = std::move(body);
  return line;
}

// With a made-up id; already with an error when the line is too long to be read.
BatchLine begin_line(const InputLine& input) {
  BatchLine line;
  line.custom_id = made_up_id(input);
  if (input.too_long()) {
    set_error(line, "line_too_long",
              str("expected at most ", LineReader::kMaxLineBytes, " bytes in a line, found ", input.n_bytes));
  }
  return line;
}

std::string to_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

BatchLine read_json_line(const InputLine& input) {
  BatchLine line = begin_line(input);
  if (line.error) return line;
  try {
    Json json = server::parse_json(input.text, str("line ", input.number));
    read_object(json, line);
  } catch (const Error& error) {
    set_error(line, "invalid_json", error.what());
  }
  return line;
}

BatchLine read_text_line(const InputLine& input, bool is_chat, const std::optional<std::string>& system) {
  BatchLine line = begin_line(input);
  if (line.error) return line;
  if (!is_chat) {
    line.endpoint = server::Endpoint::kCompletions;
    line.body["prompt"] = input.text;
    return line;
  }
  line.body["messages"] = Json::array();
  const auto add = [&line](const char* role, const std::string& content) {
    Json message;
    message["role"] = role;
    message["content"] = content;
    line.body["messages"].push_back(std::move(message));
  };
  if (system) add("system", *system);
  add("user", input.text);
  return line;
}

int64_t BatchJob::n_bytes() const {
  size_t n = sizeof *this + custom_id.size() + request_id.size();
  for (const server::PromptTokens& prompt : request.prompts) n += sizeof prompt + 4 * prompt.tokens.size();
  for (const std::string& text : request.echoed) n += text.size();
  for (const std::string& stop : request.stops) n += stop.size();
  return static_cast<int64_t>(n);
}

std::string failure_line(const std::string& custom_id, const std::string& request_id, const ApiError& error,
                         const std::string& code) {
  Json line = line_start(custom_id, request_id, error.status, server::error_body(error));
  line["error"]["code"] = code.empty() ? error.type : code;
  line["error"]["message"] = error.message;
  return to_line(line);
}

std::string success_line(const std::string& custom_id, const std::string& request_id, Json body) {
  Json line = line_start(custom_id, request_id, 200, std::move(body));
  line["error"] = nullptr;
  return to_line(line);
}

}  // namespace loci::cli
