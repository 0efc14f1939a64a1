// Decode speed with and without speculation, prompt by prompt in turns, in one process: what has been learned stays.
// Called by scripts/bench_speculation.py.
//
//   speculation_bench MODEL DRAFT|- PROMPTS.jsonl MODES MAX_TOKENS REPETITIONS THREADS TEMPERATURE DRAFT_VOCAB
//
// PROMPTS: lines {"kind": ..., "text": ...} or {..., "raw": true} for a completion without chat template. MODES: a list
// like none,ngram,draft,auto. Prints a JSON line per answer. Exit code 1 when an answer differs from the one of
// "none".
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/engine.h"
#include "kernels/error.h"
#include "main/chat_format.h"

namespace loci {
namespace {

using nlohmann::json;

struct Sink : TokenSink {
  std::vector<int32_t> tokens;
  RequestStats stats;
  void on_token(int32_t token, std::string_view, std::span<const TokenProb>) override { tokens.push_back(token); }
  void on_finish(std::string_view, const RequestStats& s) override { stats = s; }
};

SpeculationMode mode_of(const std::string& name) {
  if (name == "ngram") return SpeculationMode::kNgram;
  if (name == "draft") return SpeculationMode::kDraft;
  if (name == "auto") return SpeculationMode::kAuto;
  return SpeculationMode::kNone;
}

int run(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(stderr, "usage: see the head of tests/bench/speculation_bench.cc\n");
    return 2;
  }
  EngineConfig config;
  config.model_path = argv[1];
  if (std::string(argv[2]) != "-") config.draft_model_path = argv[2];
  config.n_ctx = 8192;
  config.draft_vocab = std::atoi(argv[9]);
  config.n_threads = std::atoi(argv[7]);
  const auto engine = Engine::load(config);
  const cli::ChatFormat format(*engine, {});
  std::vector<std::string> modes;
  std::istringstream list(argv[4]);
  for (std::string name; std::getline(list, name, ',');) modes.push_back(name);
  const int repetitions = std::atoi(argv[6]);
  bool all_same = true;
  std::ifstream file(argv[3]);
  int n = 0;
  for (std::string line; std::getline(file, line); ++n) {
    const json prompt = json::parse(line);
    const std::string text = prompt["text"];
    const std::vector<int32_t> tokens = prompt.value("raw", false)
                                            ? engine->tokenizer().encode(text, true, false)
                                            : format.prompt({{"user", text, ""}}, std::nullopt).tokens;
    std::vector<int32_t> expected;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      for (size_t i = 0; i < modes.size(); ++i) {
        const std::string& mode = modes[(i + static_cast<size_t>(n + repetition)) % modes.size()];
        Sink sink;
        Request request;
        request.prompt = tokens;
        request.sampling.temperature = std::strtof(argv[8], nullptr);
        request.sampling.seed = 1;
        request.max_tokens = std::atoll(argv[5]);
        request.speculation.mode = mode_of(mode);
        request.cache_prompt = false;
        request.sink = &sink;
        engine->submit(std::move(request));
        // Processor time of all threads from the first token on: what other programs take does not count.
        std::clock_t start = std::clock();
        while (engine->step()) {
          if (sink.tokens.empty()) start = std::clock();
        }
        const double cpu_ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        if (expected.empty()) expected = sink.tokens;
        const bool same = sink.tokens == expected;
        all_same = all_same && same;
        const SpeculationStats& drafts = sink.stats.speculation;
        std::printf("%s\n", json{{"kind", prompt["kind"]},
                                 {"prompt", n},
                                 {"mode", mode},
                                 {"n_prompt", sink.stats.n_prompt},
                                 {"n_predicted", sink.stats.n_predicted},
                                 {"prompt_ms", sink.stats.prompt_ms},
                                 {"predicted_ms", sink.stats.predicted_ms},
                                 {"cpu_ms", cpu_ms},
                                 {"n_rounds", drafts.n_rounds},
                                 {"n_drafted", drafts.n_drafted},
                                 {"n_accepted", drafts.n_accepted},
                                 {"drafted_at", drafts.drafted_at},
                                 {"accepted_at", drafts.accepted_at},
                                 {"same", same}}
                                .dump()
                                .c_str());
        std::fflush(stdout);
      }
    }
  }
  return all_same ? 0 : 1;
}

}  // namespace
}  // namespace loci

int main(int argc, char** argv) {
  try {
    return loci::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
