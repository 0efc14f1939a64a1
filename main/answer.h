// Answering one prompt on a console: the request, the streamed text, progress, timings. Used by run and chat.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "main/chat_format.h"
#include "main/console.h"

namespace loci::cli {

// Loads the model of `config` with a progress bar and says on stderr what was loaded.
std::unique_ptr<Engine> load_with_progress(const EngineConfig& config);

struct AnswerRequest {
  PromptTokens prompt;
  SamplingParams sampling;
  int64_t max_tokens = -1;
  int64_t timeout_ms = -1;  // -1: none
  std::vector<std::string> stops;
  bool show_special = false;
  bool split_reasoning = false;
  Speculation speculation;
  std::shared_ptr<const Constraint> constraint;  // the form of the answer; or none
};

struct Answer {
  std::string content;    // what was said, thinking apart
  std::string reasoning;  // empty unless split_reasoning
  RequestStats stats;
  bool interrupted = false;
  bool timed_out = false;  // said on stderr

  // Cut off before anything was said.
  bool never_began() const { return (interrupted || timed_out) && content.empty() && reasoning.empty(); }
};

// Runs the request to its end, streaming to stdout. Thinking is shown dimmed between [Start thinking] and
// [End thinking] when stdout is a terminal, and left out otherwise. Throws Error as Engine::submit does, and when
// the request failed.
Answer answer(Engine& engine, const AnswerRequest& request, Console& console);

// "[ Prompt: 123.4 t/s | Generation: 45.6 t/s | cached 0 | context 31/8192 ]", with drafts also
// "| drafted 40, accepted 31 (90% 83% 70%) ]": the shares of the first places; with a grammar "| masks 0.050 ms each,
// waited 0.010 ms each ]": computing which tokens may come, and what of it the answer waited for; in a second line why
// a part of the prompt was not in the cache, if it could have been.
std::string timings_text(const RequestStats& stats, int64_t n_ctx);

// Loads --prompt-cache; a file that does not fit is said to be unused. An absent file is fine.
void load_prompt_cache(Engine& engine, const std::string& path);

}  // namespace loci::cli
