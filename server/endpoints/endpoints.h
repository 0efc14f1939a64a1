// The functions behind the routes, by file.
#pragma once
#include "server/http/exchange.h"
#include "server/service.h"

namespace loci::server {

// openai_completions.cc
void serve_chat_completions(Service& service, Exchange& exchange);
void serve_completions(Service& service, Exchange& exchange);
// native_completion.cc
void serve_native_completion(Service& service, Exchange& exchange);
// openai_responses.cc
void serve_responses(Service& service, Exchange& exchange);
void serve_count_response_tokens(Service& service, Exchange& exchange);
// anthropic_messages.cc
void serve_messages(Service& service, Exchange& exchange);
void serve_count_message_tokens(Service& service, Exchange& exchange);
// ollama.cc
void serve_ollama_version(Service& service, Exchange& exchange);
void serve_ollama_tags(Service& service, Exchange& exchange);
void serve_ollama_ps(Service& service, Exchange& exchange);
void serve_ollama_show(Service& service, Exchange& exchange);
void serve_ollama_chat(Service& service, Exchange& exchange);
void serve_ollama_generate(Service& service, Exchange& exchange);
// embeddings.cc
void serve_embeddings(Service& service, Exchange& exchange);
void serve_native_embeddings(Service& service, Exchange& exchange);
void serve_ollama_embed(Service& service, Exchange& exchange);
void serve_ollama_embeddings(Service& service, Exchange& exchange);
// infill.cc
void serve_infill(Service& service, Exchange& exchange);
// slots.cc
void serve_slots(Service& service, Exchange& exchange);
// unsupported.cc
void serve_no_rerank(Service& service, Exchange& exchange);
void serve_no_adapters(Service& service, Exchange& exchange);
void serve_no_media(Service& service, Exchange& exchange);
void serve_no_model_changes(Service& service, Exchange& exchange);
void serve_no_slot_files(Service& service, Exchange& exchange);
void serve_no_control(Service& service, Exchange& exchange);
// health.cc
void serve_root(Service& service, Exchange& exchange);
void serve_health(Service& service, Exchange& exchange);
// models.cc
void serve_models(Service& service, Exchange& exchange);
void serve_props(Service& service, Exchange& exchange);
void serve_set_props(Service& service, Exchange& exchange);
// tokens.cc
void serve_tokenize(Service& service, Exchange& exchange);
void serve_detokenize(Service& service, Exchange& exchange);
void serve_apply_template(Service& service, Exchange& exchange);
void serve_count_chat_tokens(Service& service, Exchange& exchange);
// metrics.cc
void serve_metrics(Service& service, Exchange& exchange);

}  // namespace loci::server
