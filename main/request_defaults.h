// What batch and serve make of their flags for the requests that they answer.
#pragma once
#include <string>
#include <vector>

#include "engine/engine.h"
#include "main/chat_format.h"
#include "main/options.h"
#include "server/completion_request.h"

namespace loci::cli {

// -n and -r: where answers end whose requests do not say so.
void add_answer_end_options(CLI::App& app, int64_t& n_predict, std::vector<std::string>& stops, const char* group);

// --tool-dialect.
void add_tool_dialect_option(CLI::App& app, std::string& dialect);

// Values for what a request's body leaves out. Keeps pointers to `engine` and `format`. Throws Error that lists the
// names when there is no such dialect.
server::RequestDefaults request_defaults(Engine& engine, const ChatFormat& format, const ChatOptions& chat,
                                         const SamplingOptions& sampling, const SpeculationOptions& speculation,
                                         const std::string& dialect);

// "loci-VERSION-MODEL-SETTINGS": whatever an answer depends on, but for its own request. `more`: settings beyond the
// defaults.
std::string fingerprint_text(const Engine& engine, const ChatFormat& format, const ChatOptions& chat,
                             const server::RequestDefaults& defaults, const std::vector<std::string>& more);

// "model" of "/path/model.gguf".
std::string model_name(const std::string& path);

}  // namespace loci::cli
