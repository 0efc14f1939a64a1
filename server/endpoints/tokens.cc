// Text to tokens and back, and the prompt that a chat body becomes.
#include "engine/text/unicode.h"
#include "server/chat_body.h"
#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

// A token's text, or its bytes when they are no UTF-8 by themselves.
Json piece_json(const std::string& bytes) {
  if (unicode::is_valid(bytes)) return bytes;
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

}  // namespace

void serve_tokenize(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  const BodyFields body(json);
  const std::optional<std::string> content = body.string("content");
  if (!content) fail(ErrorKind::kInvalidInput, "'content' is required");
  const Tokenizer& tokenizer = service.tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode(*content, body.boolean("add_special").value_or(false),
                                                    body.boolean("parse_special").value_or(true));
  const bool with_pieces = body.boolean("with_pieces").value_or(false);
  Json out;
  out["tokens"] = Json::array();
  for (const int32_t id : ids) {
    if (!with_pieces) {
      out["tokens"].push_back(id);
      continue;
    }
    Json token;
    token["id"] = id;
    token["piece"] = piece_json(tokenizer.token_bytes(id, true));
    out["tokens"].push_back(std::move(token));
  }
  exchange.send_json(out);
}

void serve_detokenize(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  const Json* tokens = BodyFields(json).list("tokens");
  if (tokens == nullptr) fail(ErrorKind::kInvalidInput, "'tokens' is required");
  const int32_t n_vocab = service.tokenizer().vocab_size();
  std::vector<int32_t> ids;
  for (const Json& token : *tokens) {
    if (!token.is_number_integer() || token < 0 || token >= n_vocab) {
      reject_field("tokens", "expected token ids from 0 to ", n_vocab - 1, ", found ", excerpt(token));
    }
    ids.push_back(token.get<int32_t>());
  }
  Json out;
  out["content"] = service.tokenizer().decode(ids, true);
  exchange.send_json(out);
}

void serve_apply_template(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  Json out;
  out["prompt"] = join(render_chat(json, service.defaults(), true));
  exchange.send_json(out);
}

void serve_count_chat_tokens(Service& service, Exchange& exchange) {
  const Json json = exchange.json();
  Json out;
  out["object"] = "response.input_tokens";
  out["input_tokens"] = encode_chat(service.tokenizer(), render_chat(json, service.defaults(), true)).tokens.size();
  exchange.send_json(out);
}

}  // namespace loci::server
