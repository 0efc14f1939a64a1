// What is loaded: GET /v1/models and GET /props.
#include "server/endpoints/endpoints.h"
#include "server/prompt_tokens.h"
#include "server/sampling_fields.h"

namespace loci::server {
namespace {

Json names_json(const std::vector<std::string>& names, size_t first) {
  Json list = Json::array();
  for (size_t i = first; i < names.size(); ++i) list.push_back(names[i]);
  return list;
}

}  // namespace

void serve_models(Service& service, Exchange& exchange) {
  const ModelInfo& info = service.info();
  Json model;
  model["id"] = service.model_name();
  model["aliases"] = names_json(service.settings().aliases, 1);
  model["tags"] = Json::array();
  model["object"] = "model";
  model["created"] = service.started();
  model["owned_by"] = "loci";
  Json& meta = model["meta"];
  meta["vocab_type"] = service.tokenizer().model_name();
  meta["n_vocab"] = service.tokenizer().vocab_size();
  meta["n_ctx"] = service.defaults().n_ctx;
  meta["n_ctx_train"] = info.n_ctx_train;
  meta["n_embd"] = service.embedding_size();
  meta["n_params"] = info.n_params;
  meta["size"] = info.file_bytes;
  meta["ftype"] = info.quantization;
  Json entry;  // as Ollama lists it
  entry["name"] = service.model_name();
  entry["model"] = service.model_name();
  entry["size"] = info.file_bytes;
  entry["type"] = "model";
  entry["capabilities"] = Json::array({"completion"});
  entry["details"]["format"] = "gguf";
  entry["details"]["family"] = info.architecture;
  entry["details"]["quantization_level"] = info.quantization;
  Json out;
  out["object"] = "list";
  out["data"] = Json::array({std::move(model)});
  out["models"] = Json::array({std::move(entry)});
  exchange.send_json(out);
}

void serve_props(Service& service, Exchange& exchange) {
  const RequestDefaults& defaults = service.defaults();
  const Tokenizer& tokenizer = service.tokenizer();
  Json out;
  Json& generation = out["default_generation_settings"];
  generation["params"] = sampling_json(defaults.sampling);
  generation["params"]["n_predict"] = defaults.max_tokens;
  generation["params"]["stop"] = names_json(defaults.stops, 0);
  generation["n_ctx"] = defaults.n_ctx;
  out["total_slots"] = service.config().max_sequences;
  out["model_alias"] = service.model_name();
  out["model_ftype"] = service.info().quantization;
  out["model_path"] = service.info().path.substr(service.info().path.rfind('/') + 1);
  for (const char* kind : {"vision", "audio", "video"}) out["modalities"][kind] = false;
  out["media_marker"] = nullptr;
  out["endpoint_slots"] = service.settings().slots;
  out["endpoint_props"] = service.settings().props;
  out["endpoint_metrics"] = service.settings().metrics;
  out["ui"] = false;
  out["ui_settings"] = Json::object();
  out["chat_template"] = defaults.chat_template == nullptr ? "" : defaults.chat_template->source();
  Json& caps = out["chat_template_caps"];
  caps = Json::object();
  if (defaults.chat_template != nullptr) {
    caps["requires_object_arguments"] = defaults.chat_template->wants_object_arguments();
    caps["requires_typed_content"] = defaults.chat_template->wants_content_parts();
    caps["supports_tool_calls"] = defaults.dialect != nullptr;
  }
  out["bos_token"] = token_text_or_empty(tokenizer, tokenizer.special().bos);
  out["eos_token"] = token_text_or_empty(tokenizer, tokenizer.special().eos);
  out["build_info"] = "loci-" LOCI_VERSION;
  out["is_sleeping"] = false;
  exchange.send_json(out);
}

void serve_set_props(Service&, Exchange&) {
  fail(ErrorKind::kUnsupported, "settings are those of the command line; a request states its own");
}

}  // namespace loci::server
