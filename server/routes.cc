#include "server/routes.h"

#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/", serve_root, ErrorShape::kOpenAi, false},
    {"GET", "/health", serve_health, ErrorShape::kOpenAi, false},
    {"GET", "/v1/health", serve_health, ErrorShape::kOpenAi, false},
    {"POST", "/v1/chat/completions", serve_chat_completions},
    {"POST", "/chat/completions", serve_chat_completions},
    {"POST", "/v1/completions", serve_completions},
    {"POST", "/completion", serve_native_completion},
    {"POST", "/completions", serve_native_completion},
    {"POST", "/v1/responses", serve_responses},
    {"POST", "/responses", serve_responses},
    {"POST", "/v1/responses/input_tokens", serve_count_response_tokens},
    {"POST", "/v1/messages", serve_messages, ErrorShape::kAnthropic},
    {"POST", "/v1/messages/count_tokens", serve_count_message_tokens, ErrorShape::kAnthropic},
    {"POST", "/infill", serve_infill},
    {"GET", "/api/version", serve_ollama_version, ErrorShape::kOllama},
    {"GET", "/api/tags", serve_ollama_tags, ErrorShape::kOllama},
    {"GET", "/api/ps", serve_ollama_ps, ErrorShape::kOllama},
    {"POST", "/api/show", serve_ollama_show, ErrorShape::kOllama},
    {"POST", "/api/chat", serve_ollama_chat, ErrorShape::kOllama},
    {"POST", "/api/generate", serve_ollama_generate, ErrorShape::kOllama},
    {"POST", "/api/embed", serve_ollama_embed, ErrorShape::kOllama},
    {"POST", "/api/embeddings", serve_ollama_embeddings, ErrorShape::kOllama},
    {"POST", "/v1/embeddings", serve_embeddings},
    {"POST", "/embeddings", serve_native_embeddings},
    {"POST", "/embedding", serve_native_embeddings},
    {"POST", "/v1/rerank", serve_no_rerank},
    {"POST", "/v1/reranking", serve_no_rerank},
    {"POST", "/rerank", serve_no_rerank},
    {"POST", "/reranking", serve_no_rerank},
    {"GET", "/lora-adapters", serve_no_adapters},
    {"POST", "/lora-adapters", serve_no_adapters},
    {"POST", "/v1/audio/speech", serve_no_media},
    {"POST", "/v1/audio/transcriptions", serve_no_media},
    {"POST", "/v1/audio/translations", serve_no_media},
    {"POST", "/v1/images/generations", serve_no_media},
    {"POST", "/v1/images/edits", serve_no_media},
    {"POST", "/models", serve_no_model_changes},
    {"DELETE", "/models", serve_no_model_changes},
    {"POST", "/models/load", serve_no_model_changes},
    {"POST", "/models/unload", serve_no_model_changes},
    {"GET", "/models/sse", serve_no_model_changes},
    {"POST", "/v1/chat/completions/control", serve_no_control},
    {"GET", "/slots", serve_slots},
    {"POST", "/slots/*", serve_no_slot_files},
    {"GET", "/v1/models", serve_models},
    {"GET", "/models", serve_models},
    {"GET", "/props", serve_props},
    {"POST", "/props", serve_set_props},
    {"POST", "/tokenize", serve_tokenize},
    {"POST", "/detokenize", serve_detokenize},
    {"POST", "/apply-template", serve_apply_template},
    {"POST", "/v1/chat/completions/input_tokens", serve_count_chat_tokens},
    {"GET", "/metrics", serve_metrics},
};

// "*" at the end stands for anything, once.
bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.back() != '*') return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.substr(0, pattern.size()) == pattern;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch match;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, path)) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) return {&route, false};
    match.other_method = true;
  }
  return match;
}

}  // namespace loci::server
